"""The processes of a Dagster step: its child programs, and the step's own end."""

from __future__ import annotations

import multiprocessing
import signal

from text2sql.common.guard import PR_SET_PDEATHSIG, prctl
from text2sql.common.processes import GuardedProcess, last_lines

__all__ = ["GuardedProcess", "end_with_parent", "last_lines"]


def end_with_parent() -> None:
    """Let the kernel end this step's process when the run's process dies.

    Only a process that Dagster's executor started is bound; a step that runs inside the
    caller's own process (a test, a notebook) is left alone.
    """
    if multiprocessing.parent_process() is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
