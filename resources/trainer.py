"""Training as a child program: started, followed, reported and, if necessary, ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from resources.processes import end_step_with_run
from text2sql.common.checkout import CHECKOUT
from text2sql.common.processes import (
    GuardedProcess,
    descendants,
    described,
    ends_below,
    is_alive,
    last_lines,
)
from text2sql.errors import Text2SqlError
from text2sql.training.backends import Program
from text2sql.training.metrics import WAITING_FILE, Metrics, MetricsTail

POD_TEMPLATE = CHECKOUT / "deploy" / "kubernetes" / "training" / "pod.yaml"
POLL_SECONDS = 0.5


class KubernetesConfig(dg.Config):
    """The cluster, and what a training pod is made from."""

    image: str = Field(
        default="",
        description="The image with prime-rl and this project; empty for the template's.",
    )
    template: str = Field(
        default="",
        description="A manifest of a pod; empty for deploy/kubernetes/training/pod.yaml.",
    )
    namespace: str = Field(default="text2sql", min_length=1, description="Namespace of the pod.")
    python: str = Field(
        default="python", min_length=1, description="The Python in the image that has text2sql."
    )
    kubeconfig: str = Field(
        default="",
        description="The file that names the cluster; empty inside a cluster, and for KUBECONFIG "
        "or ~/.kube/config elsewhere.",
    )
    context: str = Field(
        default="", description="A context of that file; empty for its current context."
    )
    poll_seconds: float = Field(
        default=5.0, ge=0.1, le=600, description="Seconds between status checks of the pod."
    )

    def load(self) -> None:
        """Configure the Kubernetes client; raises ConfigException if no cluster is known."""
        from kubernetes import config

        if self.kubeconfig or self.context:
            config.load_kube_config(self.kubeconfig or None, self.context or None)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config()
        else:
            config.load_kube_config()


class TrainingFailed(Text2SqlError):
    """The child program ended with an error, or made no progress and was ended."""


_SHOWN_CHARS = 6000  # how several components' logs end


class TrainingMonitor:
    """Passes on a child's metrics as they appear, and knows when there were none for too long.

    Output in the child's log is progress too: it checks for a while before it trains. While it
    waits for machines, the file ``waiting`` beside its metrics says why; this is logged once, and
    no progress is expected.
    """

    def __init__(
        self,
        folder: Path,
        stall_seconds: float,
        on_metrics: Callable[[Metrics], None],
        say: Callable[[str], None],
    ) -> None:
        self._tail = MetricsTail(folder / "metrics.jsonl")
        self._waiting = folder / WAITING_FILE
        self._waiting.unlink(missing_ok=True)
        self._folder = folder
        self._log = folder / "train.log"
        self.stall_seconds = stall_seconds
        self._on_metrics, self._say = on_metrics, say
        self._said, self._log_size = "", 0
        self._last: Metrics | None = None
        self.moved()

    def moved(self) -> None:
        """Restart the time without progress."""
        self._since = time.monotonic()

    def poll(self) -> None:
        """Pass on what is new."""
        more = True
        while more:
            for metrics in self._tail.poll():
                self._last = metrics
                self.moved()
                self._on_metrics(metrics)
            more = self._tail.more
        size = self._log.stat().st_size if self._log.is_file() else 0
        if size != self._log_size:
            self._log_size = size
            self.moved()
        with suppress(FileNotFoundError):  # the child may remove it at any moment
            sentence = self._waiting.read_text(encoding="utf-8")
            self.moved()
            if sentence and sentence != self._said:
                self._say(sentence)
            self._said = sentence

    def stalled(self) -> str:
        """Return a sentence if there was no progress for too long, else nothing."""
        if time.monotonic() - self._since <= self.stall_seconds:
            return ""
        last = f"the last step was {self._last.get('step')}" if self._last else ""
        return (
            f"Training made no progress for {self.stall_seconds:g} s and was ended; "
            f"{last or 'no step was finished'}. Checkpoints are kept: run it again to resume. The "
            f"logs in {self._folder} end with:\n{ends_below(self._folder) or '(there are none)'}"
        )


class TrainerResource(dg.ConfigurableResource):
    """Starts training programs under Dagster Pipes; nothing of them outlives the step."""

    where: Literal["local", "kubernetes"] = Field(
        default="local",
        description="Where the training program runs: beside this step, or in a pod of its own. "
        "For several machines of a Slurm cluster use the trainer prime_rl_slurm, whose program "
        "runs beside this step and submits the job.",
    )
    grace_seconds: float = Field(
        default=10.0, ge=0, le=600, description="Seconds between asking a child to end and killing."
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

        ``on_metrics`` gets each object that the program appends to ``folder/metrics.jsonl``. Its
        output goes to ``folder/train.log``. Processes that survive even SIGKILL are named in the
        run's log. Raises TrainingFailed if the program fails, or writes no metrics for
        ``stall_seconds``.
        """
        end_step_with_run()
        monitor = TrainingMonitor(folder, stall_seconds, on_metrics, context.log.info)
        grace = self.grace_seconds if program.grace_seconds is None else program.grace_seconds
        if self.where == "kubernetes":
            if program.submits:
                raise Text2SqlError(
                    "A trainer that submits a Slurm job cannot run in a pod: set where to local, "
                    "or choose a trainer for one machine."
                )
            try:
                from resources.pods import Pod, run_in_pod
            except ImportError as error:
                raise Text2SqlError(
                    "Pods need the Kubernetes client: install the project with the extra "
                    "'kubernetes'."
                ) from error
            pod = Pod(self.kubernetes, program, folder, grace)
            return _reported(run_in_pod(context, pod, monitor))
        with dg.open_pipes_session(
            context, dg.PipesEnvContextInjector(), dg.PipesTempFileMessageReader()
        ) as session:
            log = folder / "train.log"
            environment = dict(os.environ) | dict(session.get_bootstrap_env_vars())
            child = GuardedProcess(program.command, log, environment, grace)
            with ended(child, context.log.error):
                context.log.info(f"Training runs as process {child.pid}; its log is {log}.")
                _follow(child, monitor)
        return _reported(session.get_results(implicit_materializations=False))


@contextmanager
def ended(child: GuardedProcess, complain: Callable[[str], None]) -> Iterator[None]:
    """End the child and all its processes when the block is left; name those that survive."""
    try:
        yield
    finally:
        started = descendants(child.pid)
        child.stop()
        if left := [described(process) for process in started if is_alive(process)]:
            complain(
                f"These processes could not be ended: {', '.join(left)}. They may hold GPUs and "
                "ports."
            )


def _reported(results: Sequence[Any]) -> dict[str, Any]:
    """Return the metadata that a child gave its materializations."""
    return {
        name: value
        for result in results
        if isinstance(result, dg.MaterializeResult)
        for name, value in (result.metadata or {}).items()
    }


def _follow(child: GuardedProcess, monitor: TrainingMonitor) -> None:
    """Follow the child until it ends; see ``TrainerResource.run``."""
    status = None
    while status is None:
        status = child.wait(POLL_SECONDS)
        monitor.poll()
        if status is None and (sentence := monitor.stalled()):
            raise TrainingFailed(sentence)
    if status != 0:
        lines = last_lines(child.log, _SHOWN_CHARS) or "(it is empty)"
        why = ""
        if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
            why = " (killed, by somebody or by the kernel for lack of memory, see dmesg; run it "
            why += "again to resume)"
        raise TrainingFailed(
            f"Training ended with status {status}{why}; its log is {child.log} and ends "
            f"with:\n{lines}"
        )
