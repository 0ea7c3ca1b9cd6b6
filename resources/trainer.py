"""Training as a child program: started, watched, reported and, if need be, ended."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from resources.processes import GuardedProcess, end_with_parent, identities, last_lines
from text2sql.errors import Text2SqlError
from text2sql.guard import descendants

POLL_SECONDS = 0.5
Metrics = dict[str, Any]


class TrainingFailed(Text2SqlError):
    """The child program ended with an error, or made no progress and was ended."""


class MetricsTail:
    """Reads the lines that a child appends to its metrics file, each once."""

    def __init__(self, path: Path) -> None:
        """Begin at the file's present end: earlier lines were reported by an earlier run."""
        self.path = path
        self._offset = path.stat().st_size if path.is_file() else 0

    def poll(self) -> list[Metrics]:
        """Return the complete lines written since the last call."""
        if not self.path.is_file():
            return []
        if self.path.stat().st_size < self._offset:
            self._offset = 0
        with self.path.open("rb") as file:
            file.seek(self._offset)
            complete, newline, _torn = file.read().rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        return [json.loads(line) for line in complete.splitlines() if line.strip()]


class TrainerResource(dg.ConfigurableResource):
    """Starts training programs under Dagster Pipes; nothing of them outlives the step."""

    grace_seconds: float = Field(
        default=10.0, ge=0, le=600, description="Time between asking a child to end and killing it."
    )

    def run(
        self,
        context: dg.AssetExecutionContext,
        command: Sequence[str],
        folder: Path,
        stall_seconds: float,
        on_metrics: Callable[[Metrics], None] = lambda metrics: None,
        grace_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Run the program to its end and return the metadata that it reported through Pipes.

        The program appends one JSON object a step to ``folder/metrics.jsonl``; ``on_metrics``
        gets each as it appears. Its output goes to ``folder/train.log``. ``grace_seconds`` are
        the program's own, for one that needs longer to end. Processes that outlive even SIGKILL
        are named in the run's log. Raises TrainingFailed when the program fails, or writes no
        metrics for ``stall_seconds``.
        """
        end_with_parent()
        log = folder / "train.log"
        tail = MetricsTail(folder / "metrics.jsonl")
        with dg.open_pipes_session(
            context, dg.PipesEnvContextInjector(), dg.PipesTempFileMessageReader()
        ) as session:
            grace = self.grace_seconds if grace_seconds is None else grace_seconds
            child = GuardedProcess(command, log, _environment(session), grace)
            with _ended(child, context.log.error):
                context.log.info(f"Training runs as process {child.pid}; its log is {log}.")
                _watch(child, tail, stall_seconds, on_metrics)
        return _reported_metadata(session)


@contextmanager
def _ended(child: GuardedProcess, complain: Callable[[str], None]) -> Iterator[None]:
    """End the child and all that it started when the block is left; name what cannot be ended."""
    try:
        yield
    finally:
        started = identities(descendants(child.pid))
        child.stop()
        if left := started & identities([pid for pid, _, _ in started]):
            names = ", ".join(f"{name} (process {pid})" for pid, _, name in sorted(left))
            complain(f"These processes could not be ended: {names}. They may hold GPUs and ports.")


def _reported_metadata(session: dg.PipesSession) -> dict[str, Any]:
    results = session.get_results(implicit_materializations=False)
    return {
        name: value
        for result in results
        if isinstance(result, dg.MaterializeResult)
        for name, value in (result.metadata or {}).items()
    }


def _environment(session: dg.PipesSession) -> dict[str, str]:
    return dict(os.environ) | session.get_bootstrap_env_vars()


def _watch(
    child: GuardedProcess,
    tail: MetricsTail,
    stall_seconds: float,
    on_metrics: Callable[[Metrics], None],
) -> None:
    """Follow the child until it ends; see ``TrainerResource.run``."""
    last: Metrics | None = None
    progress = time.monotonic()
    status = None
    while status is None:
        status = child.wait(POLL_SECONDS)
        for metrics in tail.poll():
            progress = time.monotonic()
            last = metrics
            on_metrics(metrics)
        if status is None and time.monotonic() - progress > stall_seconds:
            raise TrainingFailed(_stalled(child, last, stall_seconds))
    if status != 0:
        raise TrainingFailed(_failed(child, status))


def _stalled(child: GuardedProcess, last: Metrics | None, seconds: float) -> str:
    step = f"the last step was {last.get('step')}" if last else "no step was finished"
    return (
        f"Training made no progress for {seconds:g} s and was ended; {step}. Checkpoints are "
        f"kept: run it again to go on. Its log is {child.log}."
    )


def _failed(child: GuardedProcess, status: int) -> str:
    lines = last_lines(child.log) or "(it wrote nothing)"
    return f"Training ended with status {status}; its log is {child.log} and ends with:\n{lines}"
