"""Cancelling a run in each of its stages, as the web interface does, and running it again.

For every stage a run of it alone is launched on a code server and terminated through the run
launcher as soon as the stage has begun. What counts: the run is canceled, no process that it
started is left, and a second run of the same stage succeeds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.lifecycle_setting import DAY, RUN, run_config

STAGES = (
    *("report_questions", "bird_archive", "bird_questions", "bird_databases", "gold_results"),
    *("reward_strength", "known_issues", "base_rollouts", "training_prompts", "grpo_policy"),
    *("dev_rollouts", "dev_scores", "model_card", "champion_policy", "report_answers"),
)
DAILY = "report_answers"
PATIENCE_SECONDS = 900.0


class Launcher:
    """Launches runs of single stages on a code server of its own; ``idle`` are its processes."""

    def __init__(self, instance: Any, runs: Any, root: Path) -> None:
        self.instance, self.runs, self.root = instance, runs, root
        warm = self.launch("report_questions")
        _wait(lambda: self.ended(warm))
        time.sleep(1.0)
        self.idle = _processes(root)

    def launch(self, stage: str) -> str:
        """Launch a run of one stage; return its id."""
        import dagster as dg

        job, partition = ("daily_answers", DAY) if stage == DAILY else ("lifecycle", RUN)
        config = run_config([stage])
        return str(self.runs.launch(job, partition, config, [dg.AssetKey(stage)]))

    def begun(self, run_id: str) -> bool:
        """Say whether a step of the run has begun, or the run has ended."""
        from dagster import DagsterEventType

        steps = self.instance.all_logs(run_id, of_type=DagsterEventType.STEP_START)
        return bool(steps) or self.ended(run_id)

    def ended(self, run_id: str) -> bool:
        """Say whether a run has ended."""
        return bool(self.instance.get_run_by_id(run_id).is_finished)

    def left(self) -> set[int]:
        """Return the processes of runs that are there."""
        return _processes(self.root) - self.idle


def cancels(folder: Path, later: float = 0.0) -> dict[str, Any]:
    """Cancel a run in each stage ``later`` seconds after it began, then run the stage again."""
    with _launcher(folder) as launcher:
        rows = {stage: _cancel_and_repeat(launcher, stage, later) for stage in STAGES}
    return {
        "stages": rows,
        "cancelled_while_running": sum(row["first"] == "CANCELED" for row in rows.values()),
        "processes_left": sum(row["left"] for row in rows.values()),
        "reruns_failed": sum(row["second"] != "SUCCESS" for row in rows.values()),
    }


def _cancel_and_repeat(launcher: Launcher, stage: str, later: float) -> dict[str, Any]:
    first = launcher.launch(stage)
    _wait(lambda: launcher.begun(first))
    time.sleep(later)
    asked = time.perf_counter()
    launcher.instance.run_launcher.terminate(first)
    _wait(lambda: launcher.ended(first))
    ended = time.perf_counter() - asked
    _wait(lambda: not launcher.left(), 60.0)
    gone, left = time.perf_counter() - asked, launcher.left()
    second = launcher.launch(stage)
    _wait(lambda: launcher.ended(second))
    return {
        "first": launcher.instance.get_run_by_id(first).status.value,
        "ended_after_s": round(ended, 1),
        "processes_gone_after_s": round(gone, 1),
        "left": len(left),
        "second": launcher.instance.get_run_by_id(second).status.value,
    }


@contextmanager
def _launcher(folder: Path) -> Iterator[Launcher]:
    os.environ["TEXT2SQL_ROOT"] = str(folder)
    os.environ["DAGSTER_HOME"] = ""
    from pipelines.home import open_instance
    from pipelines.partitions import add_training_run
    from pipelines.runs.launch import CommandRuns
    from text2sql.common.artifacts import logs_folder

    with open_instance() as instance:
        add_training_run(instance, RUN)
        with CommandRuns(instance, logs_folder(folder) / "cancels.log") as runs:
            yield Launcher(instance, runs, folder)
    _wait(lambda: not _processes(folder), 120.0)


def _wait(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def _processes(root: Path) -> set[int]:
    """Return the processes whose environment names an artifact root, without this one."""
    wanted, found = f"TEXT2SQL_ROOT={root}".encode(), set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found - {os.getpid()}
