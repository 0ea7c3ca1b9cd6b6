"""Checks of a database file before SQLite opens it.

Nothing here opens the file: with POSIX locks, closing it would drop every lock that this process
has on it, also those of a transaction that the program itself has open on the database.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from text2sql.errors import Text2SqlError

_URL = re.compile(r"(?:^|/)([a-z][a-z0-9+]+:)/")
_FILES = ("", "-journal", "-wal", "-shm")
_NOTHING = 1  # bytes; SQLite takes a file of a single one for empty, too


def check_database(path: Path | str) -> Path:
    """Return the absolute path of a file that may be a SQLite database.

    Raises Text2SqlError when it is missing, empty, no file, or unreadable.
    """
    absolute = Path(absolute_path(path))
    try:
        found = absolute.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        if url := _URL.search(str(path)):
            raise Text2SqlError(
                f"A database must be the path of a SQLite file, not a URL ({url[1]}//...): export "
                "the data of other databases to SQLite first."
            ) from error
        raise Text2SqlError(f"There is no database {absolute}; check the path.") from error
    except OSError as error:
        raise Text2SqlError(f"{absolute} cannot be read: {error.strerror}.") from error
    if stat.S_ISDIR(found.st_mode):
        raise Text2SqlError(f"{absolute} is a folder; name the SQLite file in it.")
    if not stat.S_ISREG(found.st_mode):
        raise Text2SqlError(f"{absolute} is not a regular file; name a SQLite file.")
    if not os.access(absolute, os.R_OK):
        raise Text2SqlError(f"{absolute} cannot be read: Permission denied.")
    if found.st_size <= _NOTHING:
        raise Text2SqlError(f"{absolute}: the database is empty (0 bytes); get a fresh copy.")
    return absolute


def absolute_path(path: Path | str) -> str:
    """Return an absolute path; raises Text2SqlError where the current folder is gone."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError as error:
        message = f"There is no database {path}: the current folder no longer exists."
        raise Text2SqlError(message) from error


def unreadable_part(path: str) -> str:
    """Say which file beside a database this user may not read; empty where all can be read."""
    for end in _FILES[1:]:
        if os.path.exists(path + end) and not os.access(path + end, os.R_OK):
            return f"{path}{end}, a part of it, cannot be read; let this user read it"
    return ""


def odd_file(path: str) -> str:
    """Say which file of a database is not a regular one, or is empty; else return nothing."""
    for end in _FILES:
        try:
            found = os.stat(path + end)
        except OSError:
            continue
        if not stat.S_ISREG(found.st_mode):  # to open a pipe might block forever
            return f"{path}{end} is not a regular file, as SQLite needs it to be; move it away"
        if not end and found.st_size <= _NOTHING:
            return f"{path} is empty (0 bytes); get a fresh copy"
    return ""


def stamp_of(path: str) -> tuple[int, ...]:
    """Return values of which at least one changes with the file."""
    found = os.stat(path)
    # A program can set back the time of the last write (mtime), never that of the inode (ctime).
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
