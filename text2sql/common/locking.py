"""Locks between processes, for folders that several runs may work on at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from text2sql.errors import Text2SqlError

Say = Callable[[str], None]
"""Where progress goes: one sentence at a time, such as a logger's ``info``."""


def quiet(_: str) -> None:
    """Say nothing."""


@contextmanager
def locked(file: Path, say: Say = quiet) -> Iterator[None]:
    """Lock ``file`` for this process; say so and wait while another process has it.

    The system releases the lock when its owner ends, however that happens. The file is removed at
    the end. Raises what ``take_lock`` raises.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with _taken(file, say):
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def take_lock(handle: TextIO | int, file: Path, *, wait: bool = True) -> None:
    """Lock an open file for this process; ``file`` is its name.

    Raises BlockingIOError where another process has it, unless ``wait``, and Text2SqlError on a
    file system without locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        raise Text2SqlError(
            f"{file} cannot be locked ({error.strerror}): its file system has no locks, and "
            "without them runs collide. Mount it with locks (Lustre: -o flock), or use a folder "
            "elsewhere."
        ) from error


def _taken(file: Path, say: Say) -> TextIO:
    """Return the locked file."""
    while True:
        handle = open(file, "w", encoding="utf-8")  # noqa: SIM115 - the caller closes it
        try:
            take_lock(handle, file, wait=False)
        except BlockingIOError:
            say(f"Another process is working on {file.parent}; waiting for it.")
            take_lock(handle, file)
        # Its last owner may have removed the file meanwhile, and then others lock a new one.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle.fileno()), os.stat(file)):
                return handle
        handle.close()
