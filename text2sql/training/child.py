"""What a training program does so that nothing of it outlives the process that started it.

Whoever starts one holds the writing end of a pipe and names the reading end in the environment
variable TEXT2SQL_HEARTBEAT_FD: when the pipe closes, that process is gone, however it died.
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import sys
import threading

from text2sql.common.guard import HEARTBEAT_VARIABLE, PR_SET_PDEATHSIG


def end_with_parent() -> None:
    """Tie this process and all that it starts to the process that started it.

    Does nothing where no heartbeat is named, so that a program started by hand behaves as
    usual, or where the pipe is not open here: then it is that of the program which started this
    one, and whoever ends that ends this as well. Otherwise the process leads a group of its own,
    which is killed as a whole when the heartbeat closes, when the parent dies (Linux), or when a
    signal asks for the end.
    """
    heartbeat = os.environ.pop(HEARTBEAT_VARIABLE, None)
    if heartbeat is None or not _is_pipe(int(heartbeat)):
        return
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _end_group())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    os.set_inheritable(int(heartbeat), False)
    threading.Thread(target=_watch, args=(int(heartbeat),), name="heartbeat", daemon=True).start()


def _is_pipe(number: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


def _watch(heartbeat: int) -> None:
    while os.read(heartbeat, 64):
        pass
    _end_group()


def _end_group() -> None:
    os.killpg(0, signal.SIGKILL)
