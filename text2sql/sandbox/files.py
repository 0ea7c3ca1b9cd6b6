"""What can be said about a database file before SQLite opens it.

Nothing here opens the file: POSIX takes all locks on a file from a process that closes it, also
those of a transaction that the program itself has open on the database.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from text2sql.errors import Text2SqlError

_URL = re.compile(r"(?:^|/)([a-z][a-z0-9+]+:)/")
_FILES = ("", "-journal", "-wal", "-shm")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


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
                f"A database is not named by a URL ({url[1]}//...): give the path of an SQLite "
                "file; what another database holds must be exported into one."
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


_NOTHING = 1  # bytes; SQLite takes a file of a single one for empty, too


def absolute_path(path: Path | str) -> str:
    """Return a path from the root on; raises Text2SqlError where this folder is gone."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError as error:
        message = f"There is no database {path}: the folder that this program runs in is gone."
        raise Text2SqlError(message) from error


def unreadable_part(path: str) -> str:
    """Say which file beside a database this user may not read; nothing where there is none."""
    for end in _FILES[1:]:
        if os.path.exists(path + end) and not os.access(path + end, os.R_OK):
            return f"{path}{end}, a part of it, cannot be read; let this user read it"
    return ""


def odd_file(path: str) -> str:
    """Say which part of a database is no file, as opening it might never end, or that the
    database is empty; nothing where all is well.
    """
    for end in _FILES:
        try:
            found = os.stat(path + end)
        except OSError:
            continue
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
            return f"{path}{end} is {kind} where SQLite keeps a file; move it away"
        if not end and found.st_size <= _NOTHING:
            return f"{path} is empty (0 bytes); get a fresh copy"
    return ""


def stamp_of(path: str) -> tuple[int, ...]:
    """Return what changes when the file does.

    A program can set back the time of the content's change, never that of the inode's.
    """
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
