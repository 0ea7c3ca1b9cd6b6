"""How runs are launched on one machine: as Dagster does, and their death is noticed."""

from __future__ import annotations

import socket

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus

from pipelines.orphans import HOST_TAG, OWNER_TAG, is_orphan


class LocalRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, with an answer to the question whether a run still lives.

    Run monitoring asks it every ``poll_interval_seconds`` and fails the runs that do not. Without
    it, a run that the command line executes and that is killed keeps its place in the queue for
    as long as the web interface is open.
    """

    def launch_run(self, context: LaunchRunContext) -> None:
        """Launch a run, and note on which machine."""
        run = context.dagster_run
        self._instance.add_run_tags(run.run_id, {HOST_TAG: socket.gethostname()})
        super().launch_run(context)

    def terminate(self, run_id: str) -> bool:
        """Ask for a run's end; the command line that executes one sees this and ends it."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or OWNER_TAG not in run.tags:
            return super().terminate(run_id)
        self._instance.report_run_canceling(run)
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
