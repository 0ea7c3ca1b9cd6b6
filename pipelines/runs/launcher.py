"""How runs are launched on one machine: as Dagster does, and their death is noticed."""

from __future__ import annotations

import socket

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus

from pipelines.runs.orphans import HOST_TAG, OWNER_TAG, PROCESS_TAG, is_orphan


class LocalRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, with an answer to the question whether a run still lives.

    Run monitoring asks it every ``poll_interval_seconds`` and fails the runs that do not. Without
    it, a run that the command line executes and that is killed keeps its place in the queue for
    as long as the web interface is open.
    """

    def launch_run(self, context: LaunchRunContext) -> None:
        """Launch a run, and note on which machine.

        One that repeats a run of the command line has got that run's tags: its owner is another.
        """
        run = context.dagster_run
        tags = {HOST_TAG: socket.gethostname()}
        tags |= {tag: "" for tag in (OWNER_TAG, PROCESS_TAG) if tag in run.tags}
        self._instance.add_run_tags(run.run_id, tags)
        super().launch_run(context)

    def terminate(self, run_id: str) -> bool:
        """Ask for a run's end; the command line that executes one sees this and ends it.

        Where that is gone, the run has ended already.
        """
        run = self._instance.get_run_by_id(run_id)
        gone = run is not None and is_orphan(run)
        if run is None or run.is_finished or not (gone or run.tags.get(OWNER_TAG)):
            return super().terminate(run_id)
        self._instance.report_run_canceling(run)
        if gone:
            self._instance.report_run_canceled(run)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Let run monitoring ask."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Say that a run's process is gone where that is known."""
        if is_orphan(run):
            return CheckRunHealthResult(WorkerStatus.FAILED, "its process is gone")
        return CheckRunHealthResult(WorkerStatus.RUNNING)
