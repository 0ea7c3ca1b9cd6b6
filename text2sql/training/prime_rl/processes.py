"""prime-rl's processes: started as one group, ended together, named when one cannot be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from text2sql.common.guard import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, reap
from text2sql.common.processes import descendants, described, signal_descendants
from text2sql.training.prime_rl.checkout import rl_environment

GRACE_SECONDS = 110.0
"""Between SIGTERM and SIGKILL: prime-rl ends its servers one after the other."""

_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.05


def adopt_orphans() -> None:
    """Become the parent of the processes that children leave behind, and end with the own parent.

    On Linux; other systems lack both, and only the processes that have a living parent are found.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(
    directory: Path, command: list[str], log: Path, errors: int | None = subprocess.STDOUT
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; its output goes to ``log``.

    It is asked to end if this process is killed. ``errors`` is its standard error, None for this
    process's own.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=directory,
            env=rl_environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )


def end_all(grace: float) -> list[str]:
    """End every process below this one; return the names of those that survive even SIGKILL.

    SIGTERM first, SIGKILL after ``grace`` seconds. Survivors hang in the kernel, as a process does
    when its GPU or disk does not respond.
    """
    alive = signal_descendants(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while alive and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        reap()
        alive = descendants(os.getpid())
    deadline = time.monotonic() + _KILL_SECONDS
    while signal_descendants(signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        reap()
    return [described(process) for process in descendants(os.getpid())]
