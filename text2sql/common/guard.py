"""Run one command so that nothing of it outlives the process that asked for it.

``python guard.py HEARTBEAT_FD GRACE_SECONDS COMMAND...`` starts the command and waits. When the
command ends, when a signal stops the guard, or when the other end of the heartbeat pipe closes
(its owner is gone, however it died), every process that the command started is ended: SIGTERM
first, SIGKILL after the grace period, including children in sessions of their own. It imports only
the standard library, so that it starts in a few milliseconds; so it reads /proc instead of psutil.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
HEARTBEAT_VARIABLE = "TEXT2SQL_HEARTBEAT_FD"
ENDED_BY_GUARD = 143

stop_requested = False


def prctl(option: int, value: int) -> None:
    """Set a Linux process attribute; other systems have none and rely on the pipe."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Return the living processes below ``root``, read from /proc where there is one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(entry.name)] = int(parent)
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def reap() -> None:
    """Collect ended children, so that they do not stay as zombies."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def signal_all(number: int) -> list[int]:
    """Send a signal to everything below this process; return what was alive."""
    alive = descendants(os.getpid())
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return alive


def sweep(grace: float) -> None:
    """End everything below this process: SIGTERM first, SIGKILL after the grace period."""
    deadline = time.monotonic() + grace
    alive = signal_all(signal.SIGTERM)
    while alive and time.monotonic() < deadline:
        time.sleep(0.02)
        reap()
        alive = descendants(os.getpid())
    while signal_all(signal.SIGKILL):
        time.sleep(0.02)
        reap()


def request_stop(_number: int, _frame: object) -> None:
    """Note that a signal arrived."""
    global stop_requested
    stop_requested = True


def main(heartbeat: int, grace: float, command: list[str]) -> int:
    """Run the command to its end, or end it; return its exit status."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, request_stop)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = subprocess.Popen(
        command,
        pass_fds=(heartbeat,),
        env=os.environ | {HEARTBEAT_VARIABLE: str(heartbeat)},
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    while child.poll() is None and not stop_requested:
        if select.select([heartbeat], [], [], 0.1)[0]:
            break
    status = child.poll()
    sweep(grace)
    if status is None:
        return ENDED_BY_GUARD
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: python guard.py HEARTBEAT_FD GRACE_SECONDS COMMAND...")
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
