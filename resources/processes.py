"""The process of a Dagster step."""

from __future__ import annotations

import multiprocessing
import signal

from text2sql.common.guard import PR_SET_PDEATHSIG, prctl


def end_step_with_run() -> None:
    """Let the kernel end this step's process when the run's process dies.

    Does nothing in a step that runs inside the caller's own process (a test, a notebook): only a
    process that Dagster's executor started is tied to it.
    """
    if multiprocessing.parent_process() is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
