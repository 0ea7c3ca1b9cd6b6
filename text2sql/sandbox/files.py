"""What can be said about a database file before SQLite opens it."""

from __future__ import annotations

import os
from pathlib import Path

from text2sql.errors import Text2SqlError

_HEADER = b"SQLite format 3\x00"


def check_database(path: Path | str) -> Path:
    """Return the absolute path of a file that looks like a SQLite database.

    Raises Text2SqlError when it is missing, empty, no file, unreadable or something else.
    """
    absolute = Path(os.path.abspath(path))
    try:
        if not absolute.is_file():
            raise Text2SqlError(_no_file(absolute))
        with absolute.open("rb") as file:
            header = file.read(len(_HEADER))
    except OSError as error:
        reason = error.strerror or str(error)
        raise Text2SqlError(f"{absolute} cannot be read: {reason}.") from error
    if not header:
        raise Text2SqlError(f"{absolute}: the database is empty (0 bytes); get a fresh copy.")
    if header != _HEADER:
        raise Text2SqlError(f"{absolute} is not a SQLite database, or it is encrypted.")
    return absolute


def _no_file(path: Path) -> str:
    if path.is_dir():
        return f"{path} is a folder; name the SQLite file in it."
    if path.exists():
        return f"{path} is not a regular file; name a SQLite file."
    return f"There is no database {path}; check the path."
