"""The processes of a Dagster step: its child programs, and the step's own end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterable
from pathlib import Path

from text2sql.common.guard import PR_SET_PDEATHSIG, prctl
from text2sql.common.processes import GuardedProcess, last_lines

__all__ = ["GuardedProcess", "end_with_parent", "identities", "last_lines"]


def end_with_parent() -> None:
    """Let the kernel end this step's process when the run's process dies.

    Only a process that Dagster's executor started is bound; a step that runs inside the
    caller's own process (a test, a notebook) is left alone.
    """
    if multiprocessing.parent_process() is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def identities(pids: Iterable[int]) -> set[tuple[int, str, str]]:
    """Return id, start time and name of those processes that live; an id alone may be reused."""
    found = set()
    for pid in pids:
        try:
            before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        except OSError:
            continue
        fields = after.split()
        if fields[0] not in "ZX":
            found.add((pid, fields[19], before.partition("(")[2]))
    return found
