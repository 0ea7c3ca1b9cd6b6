"""Which state of a database an answer was computed on."""

from __future__ import annotations

import hashlib
from pathlib import Path

_LENGTH = 16
_PARTS = ("", "-wal")  # what SQLite reads: the file, and commits that are not in it yet


def database_fingerprint(database: Path) -> str:
    """Return 16 hexadecimal digits of the sha256 over a database file and its write-ahead log.

    The log is not always there: whoever closes the database last removes it.
    """
    digest = hashlib.sha256()
    for suffix in _PARTS:
        try:
            with database.with_name(database.name + suffix).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError:
            if not suffix:
                raise
    return digest.hexdigest()[:_LENGTH]
