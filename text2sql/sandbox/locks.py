"""Whether another process is writing to a SQLite file, asked of the operating system."""

from __future__ import annotations

import fcntl
import os
import struct
import sys

_PENDING_BYTE = 0x40000000
"""SQLite locks this byte, the next one, or both before it changes a file, and until it is done."""

_KIND, _PLACE = (fcntl.F_RDLCK, os.SEEK_SET), (_PENDING_BYTE, 2, 0)
# struct flock, and where in it the system answers what kind of lock is in the way
if sys.platform == "linux":
    _QUESTION, _ANSWER = struct.pack("hhqqi", *_KIND, *_PLACE), slice(0, 2)
else:
    _QUESTION, _ANSWER = struct.pack("qqihh", *_PLACE, *_KIND), slice(20, 22)
_NONE = struct.pack("h", fcntl.F_UNLCK)


def is_being_written(descriptor: int) -> bool:
    """Whether another process has a transaction open that changes the file.

    Takes no lock. False where the file system has none to ask for.
    """
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _QUESTION)
    except OSError:
        return False
    return answer[_ANSWER] != _NONE
