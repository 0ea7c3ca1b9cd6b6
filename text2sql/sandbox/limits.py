"""Limits of one query, and SQLite's own limits on every connection."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field

from text2sql.errors import Text2SqlError

MAX_SQL_CHARS = 1_000_000
"""Longer texts are refused unread, as SQLite itself refuses them."""

MAX_VALUE_BYTES = 10_000_000
"""SQLite's limit on one text, blob or row: allows long cells, stops a function's 1 GB."""

MESSAGE_CHARS = 1_000
"""SQLite's messages are cut here: they quote unknown tokens and names, however long."""

# Those of a query are SQLite's own defaults, so that no verdict differs from that of an evaluator
# without a sandbox for a query's size alone.
SQLITE_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1_000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 500,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 127,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50_000,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 250_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

LOCK_VARIABLE = "TEXT2SQL_LOCK_SECONDS"
_LONGEST = 86_400


def _seconds_of(variable: str, default: float) -> float:
    """Read seconds from an environment variable; raises Text2SqlError for something else."""
    text = os.environ.get(variable, "").strip()
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST:
        raise Text2SqlError(f"{variable} is {text!r}: give seconds, from 0 to {_LONGEST:,}.")
    return seconds


@dataclass(frozen=True)
class Limits:
    """Limits of one query.

    ``seconds`` is wall-clock time; the parent kills a worker that exceeds it. ``keep_rows`` rows
    are sent back; the rest is only counted and digested. A result of more than ``max_rows`` rows or
    ``max_bytes`` of values is too large or, with ``cut``, ok and not complete. ``memory_mb`` limits
    the worker's address space. A lock of another program is waited for ``lock_seconds``, but not
    longer than half of ``seconds``.
    """

    seconds: float = 30.0
    keep_rows: int = 0
    max_rows: int = 1_000_000
    max_bytes: int = 200_000_000
    memory_mb: int = 1024
    cut: bool = False
    lock_seconds: float = field(default_factory=lambda: _seconds_of(LOCK_VARIABLE, 5.0))

    def __post_init__(self) -> None:
        """Raise Text2SqlError for limits out of range."""
        if not 0 < self.seconds <= _LONGEST:
            raise Text2SqlError(f"A query may take 0 to {_LONGEST:,} s, not {self.seconds}.")
        for name in ("keep_rows", "max_rows", "max_bytes", "memory_mb"):
            if getattr(self, name) < 0:
                raise Text2SqlError(f"The limit {name} must not be negative.")
