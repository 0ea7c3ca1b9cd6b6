"""prime-rl's processes: started as one group, known by name, ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from text2sql.common.guard import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, reap
from text2sql.common.processes import descendants, described, signal_descendants
from text2sql.training.prime_rl.program import rl_environment

GRACE_SECONDS = 110.0
"""Between SIGTERM and SIGKILL: prime-rl ends its servers one after the other."""

_KILL_SECONDS = 5.0


def adopt() -> None:
    """Make this process the parent of what its children leave behind, and end with its own."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(
    directory: Path, command: list[str], log: Path, errors: int | None = subprocess.STDOUT
) -> subprocess.Popen[bytes]:
    """Start what trains in a session of its own; all that it prints goes to ``log``.

    Should this process be killed, it is asked to end. ``errors`` is what its standard error
    becomes, None for this process's own.
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
    """End every process below this one; return the names of those that even SIGKILL left.

    SIGTERM first, SIGKILL after ``grace`` seconds. What is left hangs in the kernel, as a
    process does whose GPU or disk does not answer.
    """
    _wait(len(signal_descendants(signal.SIGTERM)), grace)
    deadline = time.monotonic() + _KILL_SECONDS
    while signal_descendants(signal.SIGKILL) and time.monotonic() < deadline:
        _wait(1, 0.1)
    return [described(process) for process in descendants(os.getpid())]


def _wait(alive: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        reap()
        alive = len(descendants(os.getpid()))
