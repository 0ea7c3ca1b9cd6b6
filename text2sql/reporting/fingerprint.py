"""Which state of a database an answer was computed on."""

from __future__ import annotations

import hashlib
from pathlib import Path

_LENGTH = 16
_PARTS = ("", "-wal")  # what SQLite reads: the file, and commits that are not in it yet


def database_fingerprint(database: Path) -> str:
    """Return 16 hexadecimal digits of the sha256 over a database file and its write-ahead log."""
    digest = hashlib.sha256()
    for suffix in _PARTS:
        part = database.with_name(database.name + suffix)
        if not suffix or part.is_file():
            with part.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:_LENGTH]
