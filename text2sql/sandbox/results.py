"""The result of a query: status, rows, and digests that are equal where Python's rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

_SIZE = 16  # bytes of a row's hash: two different rows collide with odds of 2**-128
_MERGED = frozenset((float, bool))


class Status(StrEnum):
    """How the execution of one text ended; only ``OK`` carries a result."""

    OK = "ok"
    ERROR = "error"
    WRITE = "write"
    NO_STATEMENT = "no_statement"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class QueryResult:
    """The result of one text.

    ``rows`` are the first ``keep_rows`` rows, ``row_count`` counts all that were read.
    ``complete`` is false when reading stopped early. Two results with equal ``digest`` are equal
    as sets of rows, with ``multiset_digest`` as multisets, with ``ordered_digest`` as lists; all
    three are empty unless the status is ok and the result complete. ``seconds`` is wall-clock time.
    ``error`` says what went wrong; where the infrastructure failed, it begins with the database's
    path.
    """

    status: Status
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    row_count: int = 0
    complete: bool = True
    digest: str = ""
    multiset_digest: str = ""
    ordered_digest: str = ""
    error: str = ""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


def refused(verb: str) -> QueryResult:
    """Return the result of a text whose statement with this verb would change something."""
    error = f"refused: {verb} would change the database; only reading statements run here."
    return QueryResult(Status.WRITE, error=error)


def timeout_message(seconds: float) -> str:
    """Say that a query ran into its time limit."""
    return f"the query ran longer than {seconds:g} s and was stopped"


class ResultDigest:
    """Digests a result row by row, holding one short hash for each distinct row."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._ordered = blake2b(digest_size=_SIZE)

    def add(self, row: Sequence[Any]) -> int:
        """Add one row; return the length of its text form, a measure of its size.

        Two rows have the same text exactly when Python calls the tuples equal.
        """
        # ascii() tells None, numbers, text and blobs apart and does not depend on Python's Unicode
        # tables; the one merge it lacks, 1 == 1.0 == True, is made first.
        if not _MERGED.isdisjoint(map(type, row)):
            row = [int(v) if type(v) in _MERGED and _is_int64(float(v)) else v for v in row]
        text = ascii(list(row))
        key = blake2b(text.encode("ascii"), digest_size=_SIZE).digest()
        self._counts[key] = self._counts.get(key, 0) + 1
        self._ordered.update(key)
        return len(text)

    def digests(self) -> tuple[str, str, str]:
        """Return the digests of the rows as a set, a multiset and a list."""
        rows = blake2b(digest_size=_SIZE)
        counted = blake2b(digest_size=_SIZE)
        for key in sorted(self._counts):
            rows.update(key)
            counted.update(key)
            counted.update(self._counts[key].to_bytes(8, "little"))
        return rows.hexdigest(), counted.hexdigest(), self._ordered.hexdigest()


def _is_int64(value: float) -> bool:
    # SQLite's integers have 64 bits, so a larger float equals none of them.
    return value.is_integer() and -9223372036854775808.0 <= value < 9223372036854775808.0
