"""The result of a query: status, rows, and digests that are equal where the rows are.

The digests are exact, as scoring needs them. Outside scoring two floats that differ by rounding are
one value: for that rows with floats are digested on three grids as well (``GRIDS``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from itertools import chain
from math import copysign, floor, frexp, isfinite, ldexp
from sys import float_info
from typing import Any

_SIZE = 16  # bytes of a row's hash: two different rows collide with odds of 2**-128
_MERGED = frozenset((float, bool))
_GRID = 2.0**28  # steps of a mantissa: two floats within 1e-9 are less than half a step apart


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
    three are empty unless the status is ok and the result complete. ``near`` and ``near_multiset``
    are what to keep of a result that is compared outside scoring: the digest, and if it has floats
    the digests of all grids behind it, separated by ``~``. ``seconds`` is wall-clock time.
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
    near: str = ""
    near_multiset: str = ""
    error: str = ""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


def refused(verb: str) -> QueryResult:
    """Return the result of a text whose statement with this verb would change something."""
    does = "reaches other files" if verb in ("ATTACH", "DETACH") else "would change the database"
    error = f"refused: {verb} {does}; only reading statements run here."
    return QueryResult(Status.WRITE, error=error)


def timeout_message(seconds: float) -> str:
    """Say that a query ran into its time limit."""
    return f"the query ran longer than {seconds:g} s and was stopped"


class ResultDigest:
    """Digests a result, holding one short hash for each distinct row."""

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()
        self._grids: list[Counter[bytes]] = []  # from the first row with a float on
        self._ordered = blake2b(digest_size=_SIZE)

    def add(self, rows: Sequence[Sequence[Any]]) -> list[int]:
        """Add the next rows; return the lengths of their text forms, a measure of their size.

        Two rows have the same text exactly when Python calls the tuples equal.
        """
        # ascii() tells None, numbers, text and blobs apart and does not depend on Python's Unicode
        # tables; the one merge it lacks, 1 == 1.0 == True, is made first.
        merged = not _MERGED.isdisjoint(map(type, chain.from_iterable(rows)))
        texts = [ascii(_merged(row) if merged else list(row)) for row in rows]
        keys = [_key(text) for text in texts]
        floats = [merged and float in map(type, row) for row in rows]
        if merged and any(floats) and not self._grids:
            self._grids = [Counter(self._counts) for _ in GRIDS]
        self._counts.update(keys)
        for grid, counts in zip(GRIDS.values(), self._grids, strict=False):  # none before a float
            counts.update(
                _key(ascii([grid(v) if type(v) is float else v for v in row])) if has else key
                for key, row, has in zip(keys, rows, floats, strict=True)
            )
        self._ordered.update(b"".join(keys))
        return list(map(len, texts))

    def digests(self) -> tuple[str, str, str, str, str]:
        """Return the digests of the rows, in the order of ``QueryResult``'s fields."""
        combined = [_combined(counts) for counts in (self._counts, *self._grids)]
        sets, multisets = zip(*combined, strict=True)
        names = ["", *GRIDS]
        near, near_multiset = (
            "~".join(name + digest for name, digest in zip(names, digests, strict=False))
            for digests in (sets, multisets)
        )
        return sets[0], multisets[0], self._ordered.hexdigest(), near, near_multiset


def _merged(row: Sequence[Any]) -> list[Any]:
    return [int(v) if type(v) in _MERGED and _is_int64(float(v)) else v for v in row]


def _key(text: str) -> bytes:
    return blake2b(text.encode("ascii"), digest_size=_SIZE).digest()


def _combined(counts: Counter[bytes]) -> tuple[str, str]:
    """Return the digests of rows as a set and as a multiset."""
    keys = sorted(counts)
    counted = b"".join([key + counts[key].to_bytes(8, "little") for key in keys])
    return (
        blake2b(b"".join(keys), digest_size=_SIZE).hexdigest(),
        blake2b(counted, digest_size=_SIZE).hexdigest(),
    )


def rounded(value: float, *, down: bool = False) -> float | int:
    """Return the nearest number of a grid of floats, or with ``down`` the one below.

    Steps are 4e-9 to 8e-9 of the value. One grid alone would part two neighbours that differ by
    rounding; where the nearest one has an edge, the one below has none, so two floats within 1e-9
    of each other have the same number on one grid at least, and none 1e-8 apart on either.
    """
    if not isfinite(value):
        return value
    mantissa, exponent = frexp(value)
    steps = floor(mantissa * _GRID) if down else round(mantissa * _GRID)
    try:
        found = ldexp(steps / _GRID, exponent)
    except OverflowError:  # the next number of the grid lies above the largest float
        return copysign(float_info.max, value)
    return int(found) if found.is_integer() and abs(found) < _GRID else found


def whole(value: float) -> float | int:
    """Return the integer within 1e-9 of a float, so that it equals SQLite's integers; else itself.

    Without one it is the nearest number of the grid of ``rounded``.
    """
    if isfinite(value) and abs(value) < 2.0**63:
        near = round(value)
        if abs(value - near) <= 1e-9 * abs(value):
            return near
    return rounded(value)


GRIDS: dict[str, Callable[[float], float | int]] = {
    "n": rounded,
    "d": partial(rounded, down=True),
    "w": whole,
}
"""The grids by the letter before their digests, which say nothing of another grid's."""


def _is_int64(value: float) -> bool:
    # SQLite's integers have 64 bits, so a larger float equals none of them.
    return value.is_integer() and -9223372036854775808.0 <= value < 9223372036854775808.0
