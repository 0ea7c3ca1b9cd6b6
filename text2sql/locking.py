"""One process at a time: for work on a folder that several runs may begin at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

Say = Callable[[str], None]
"""Where progress goes: one sentence at a time, such as a logger's ``info``."""


def quiet(_: str) -> None:
    """Say nothing."""


@contextmanager
def locked(file: Path, say: Say = quiet) -> Iterator[None]:
    """Hold an exclusive lock on ``file``; wait where another process has it, and say so.

    The system gives the lock back when its holder ends, however that happens. The file is
    removed at the end.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with _taken(file, say):
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def _taken(file: Path, say: Say) -> TextIO:
    """Return the locked file; one that its last holder removed meanwhile is no lock any more."""
    while True:
        handle = open(file, "w", encoding="utf-8")  # noqa: SIM115 - the caller closes it
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another process works on {file.parent}; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle.fileno()), os.stat(file)):
                return handle
        handle.close()
