"""Training as a child program: started, watched, reported and, if need be, ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from resources.cluster import KubernetesConfig
from resources.processes import GuardedProcess, end_with_parent, last_lines
from resources.watching import Metrics, Progress, TrainingFailed
from text2sql.common.processes import descendants, described, is_alive
from text2sql.errors import Text2SqlError

POLL_SECONDS = 0.5
_KILLED = (
    " (killed: somebody did, or the kernel for lack of memory, which dmesg says; run it again to "
    "go on)"
)


@dataclass(frozen=True)
class Program:
    """A training program; ``grace_seconds`` is how long it may take to end when asked to.

    It appends one JSON object a step to ``metrics.jsonl`` in its folder. A pod asks for ``gpus``
    and must have mounted what the program ``reads``; one that ``submits`` a job to a cluster can
    only run beside the step that starts it.
    """

    command: Sequence[str]
    grace_seconds: float | None = None
    gpus: int = 0
    reads: tuple[Path, ...] = ()
    submits: bool = False


class TrainerResource(dg.ConfigurableResource):
    """Starts training programs under Dagster Pipes; nothing of them outlives the step."""

    where: Literal["local", "kubernetes"] = Field(
        default="local",
        description="Where the training program runs: beside this step, or in a pod of its own. "
        "A run over several machines of a Slurm cluster is the trainer prime_rl_slurm, whose "
        "program runs beside this step and submits the job.",
    )
    grace_seconds: float = Field(
        default=10.0, ge=0, le=600, description="Time between asking a child to end and killing it."
    )
    kubernetes: KubernetesConfig = KubernetesConfig()

    def run(
        self,
        context: dg.AssetExecutionContext,
        program: Program,
        folder: Path,
        stall_seconds: float,
        on_metrics: Callable[[Metrics], None] = lambda metrics: None,
    ) -> dict[str, Any]:
        """Run the program to its end and return the metadata that it reported through Pipes.

        ``on_metrics`` gets each object that the program appends to ``folder/metrics.jsonl`` as
        it appears. Its output goes to ``folder/train.log``. Processes that outlive even SIGKILL
        are named in the run's log. Raises TrainingFailed when the program fails, or writes no
        metrics for ``stall_seconds``.
        """
        end_with_parent()
        progress = Progress(folder, stall_seconds, on_metrics, context.log.info)
        grace = self.grace_seconds if program.grace_seconds is None else program.grace_seconds
        if self.where == "kubernetes":
            return reported(self._in_pod(context, program, folder, grace, progress))
        with dg.open_pipes_session(
            context, dg.PipesEnvContextInjector(), dg.PipesTempFileMessageReader()
        ) as session:
            log = folder / "train.log"
            child = GuardedProcess(program.command, log, _environment(session), grace)
            with _ended(child, context.log.error):
                context.log.info(f"Training runs as process {child.pid}; its log is {log}.")
                _watch(child, progress)
        return reported(session.get_results(implicit_materializations=False))

    def _in_pod(
        self,
        context: dg.AssetExecutionContext,
        program: Program,
        folder: Path,
        grace: float,
        progress: Progress,
    ) -> Sequence[Any]:
        from resources.pods import Pod, run_in_pod

        if program.submits:
            raise Text2SqlError(
                "A trainer that submits a Slurm job cannot run in a pod: set where to local, or "
                "choose a trainer for one machine."
            )
        command = tuple(program.command)
        pod = Pod(self.kubernetes, command, folder, grace, program.gpus, program.reads)
        return run_in_pod(context, pod, progress)


@contextmanager
def _ended(child: GuardedProcess, complain: Callable[[str], None]) -> Iterator[None]:
    """End the child and all that it started when the block is left; name what cannot be ended."""
    try:
        yield
    finally:
        started = descendants(child.pid)
        child.stop()
        if left := [process for process in started if is_alive(process)]:
            names = ", ".join(map(described, left))
            complain(f"These processes could not be ended: {names}. They may hold GPUs and ports.")


def reported(results: Sequence[Any]) -> dict[str, Any]:
    """Return the metadata that a child gave its materializations."""
    return {
        name: value
        for result in results
        if isinstance(result, dg.MaterializeResult)
        for name, value in (result.metadata or {}).items()
    }


def _environment(session: dg.PipesSession) -> dict[str, str]:
    return dict(os.environ) | dict(session.get_bootstrap_env_vars())


def _watch(child: GuardedProcess, progress: Progress) -> None:
    """Follow the child until it ends; see ``TrainerResource.run``."""
    status = None
    while status is None:
        status = child.wait(POLL_SECONDS)
        progress.look()
        if status is None and (sentence := progress.stalled()):
            raise TrainingFailed(sentence)
    if status != 0:
        lines = last_lines(child.log) or "(it wrote nothing)"
        why = _KILLED if status in (-signal.SIGKILL, 128 + signal.SIGKILL) else ""
        raise TrainingFailed(
            f"Training ended with status {status}{why}; its log is {child.log} and ends "
            f"with:\n{lines}"
        )
