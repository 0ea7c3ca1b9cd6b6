"""Whether another program uses a SQLite file, or has left something unfinished beside it."""

from __future__ import annotations

import fcntl
import os
import stat
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


def is_in_use(path: str, descriptor: int) -> bool:
    """Whether a database, open at ``descriptor``, may change or has a part that is not in it."""
    return _has_journal(path) or _has_log(path) or is_being_written(descriptor)


def _has_journal(path: str) -> bool:
    """Whether a transaction's journal lies beside a database.

    One that is empty or begins with zero is what a finished transaction leaves (PRAGMA
    journal_mode TRUNCATE, PERSIST).
    """
    journal = path + "-journal"
    if not os.access(journal, os.F_OK):  # cheaper than an exception
        return False
    try:
        found = os.stat(journal)
        return not stat.S_ISREG(found.st_mode) or (found.st_size > 0 and _first(journal) != b"\x00")
    except OSError:
        return True


def _first(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 1)
    finally:
        os.close(descriptor)


def _has_log(path: str) -> bool:
    log = path + "-wal"
    if not os.access(log, os.F_OK):
        return False
    try:
        return os.stat(log).st_size > 0 or os.path.exists(path + "-shm")
    except FileNotFoundError:
        return False


def is_being_written(descriptor: int) -> bool:
    """Whether another process has a transaction open that changes the file.

    Takes no lock. False where the file system has none to ask for.
    """
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _QUESTION)
    except OSError:
        return False
    return answer[_ANSWER] != _NONE
