"""prime-rl's processes: started as one group, ended together, named when one cannot be ended."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from text2sql.common.guard import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from text2sql.training.prime_rl.checkout import rl_environment

GRACE_SECONDS = 110.0
"""Between SIGTERM and SIGKILL: prime-rl ends its servers one after the other."""

_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.1


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
    alive = _signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while alive and time.monotonic() < deadline:
        psutil.wait_procs(alive, timeout=_POLL_SECONDS)
        alive = _descendants()  # a program that ends may have started others
    deadline = time.monotonic() + _KILL_SECONDS
    while (alive := _signal(signal.SIGKILL)) and time.monotonic() < deadline:
        psutil.wait_procs(alive, timeout=_POLL_SECONDS)
    return describe(_descendants())


def describe(processes: Iterable[psutil.Process]) -> list[str]:
    """Return each process as a person reads it: its name and its id."""
    found = []
    for process in sorted(processes, key=lambda process: process.pid):
        name = "unknown"
        with suppress(psutil.Error):
            name = process.name()
        found.append(f"{name} (process {process.pid})")
    return found


def _descendants() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                process.wait(0)  # an adopted orphan: nobody else collects it
            else:
                found.append(process)
    return found


def _signal(number: int) -> list[psutil.Process]:
    """Send a signal to every process below this one; return those that got it."""
    alive = _descendants()
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return alive
