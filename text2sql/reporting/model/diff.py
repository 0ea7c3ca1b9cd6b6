"""Differences between an answer and the one before: rows, SQL, and why to distrust them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from text2sql.sandbox.results import rounded

Row = dict[str, Any]
_Key = tuple[str, ...]
_Content = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class RowChanges:
    """Differences between two results as multisets of rows, in any order.

    ``changed`` pairs the old and the new row with the same values in the columns ``key``, which
    are unique in both results. Without such columns a changed row counts as one removed and one
    added. ``counts`` are the numbers added, removed and changed, even if only some are listed.
    """

    added: tuple[Row, ...] = ()
    removed: tuple[Row, ...] = ()
    changed: tuple[tuple[Row, Row], ...] = ()
    unchanged: int = 0
    key: _Key = ()
    counts: tuple[int, int, int] = (0, 0, 0)

    def first(self, most: int) -> RowChanges:
        """Return the same changes, listing at most ``most`` rows of each kind."""
        return replace(
            self, added=self.added[:most], removed=self.removed[:most], changed=self.changed[:most]
        )

    def __str__(self) -> str:
        """Return the counts in words: ``2 rows added, 1 changed``."""
        named = zip(self.counts, ("added", "removed", "changed"), strict=True)
        words = [f"{count:,} {name}" for count, name in named if count]
        if not words:
            return "no row differs"
        number, _, rest = ", ".join(words).partition(" ")
        return f"{number} {'row' if number == '1' else 'rows'} {rest}"


@dataclass(frozen=True)
class Difference:
    """Differences between a published answer and the published one before it.

    ``rows`` compares the stored rows; it is not ``complete`` if either answer keeps only a part
    of its rows. ``data_changed`` compares the databases' fingerprints. ``renamed``: the columns
    have other names, which alone do not make it another result.
    """

    previous_at: datetime
    rows: RowChanges
    sql_changed: bool
    result_changed: bool
    data_changed: bool
    complete: bool
    renamed: bool = False

    @property
    def warning(self) -> str:
        """Return what a reader should distrust, empty if nothing."""
        if self.data_changed or not (self.sql_changed or self.result_changed):
            return ""
        if not self.sql_changed:
            return "Neither the SQL nor the data changed, but the result did: it is not repeatable."
        result = "a different" if self.result_changed else "the same"
        return f"The SQL changed while the data did not, and returns {result} result."


def compare_rows(old: Sequence[Row], new: Sequence[Row]) -> RowChanges:
    """Compare two results row by row; a row maps a column's name to its value.

    Floats that differ by rounding are one value, as in ``judge.equality``.
    """
    before, after = _by_content(old), _by_content(new)
    removed = _beyond(before, after)
    added = _beyond(after, before)
    unchanged = len(new) - len(added)
    key = _find_key(old, new)
    pairs: tuple[tuple[Row, Row], ...] = ()
    if key is not None:
        gone = {_values(row, key): row for row in removed}
        pairs = tuple((gone[_values(row, key)], row) for row in added if _values(row, key) in gone)
        kept = {_values(row, key) for _, row in pairs}
        added = tuple(row for row in added if _values(row, key) not in kept)
        removed = tuple(row for row in removed if _values(row, key) not in kept)
    counts = (len(added), len(removed), len(pairs))
    return RowChanges(added, removed, pairs, unchanged, key or (), counts)


def _by_content(rows: Sequence[Row]) -> dict[_Content, list[Row]]:
    found: dict[_Content, list[Row]] = {}
    for row in rows:
        cells = tuple(
            (name, rounded(value) if isinstance(value, float) else value)
            for name, value in row.items()
        )
        found.setdefault(cells, []).append(row)
    return found


def _beyond(rows: dict[_Content, list[Row]], others: dict[_Content, list[Row]]) -> tuple[Row, ...]:
    """Return the rows that occur more often than among the others."""
    return tuple(
        row for content, alike in rows.items() for row in alike[len(others.get(content, ())) :]
    )


def _find_key(old: Sequence[Row], new: Sequence[Row]) -> _Key | None:
    """Return columns whose values are unique in both results; none for single rows.

    Tries columns of text first, then others, then the first two, the first three and so on.
    """
    if not old or not new or list(old[0]) != list(new[0]):
        return None
    names = tuple(old[0])
    if len(old) == len(new) == 1:
        return ()
    single = sorted(names, key=lambda name: not isinstance(new[0][name], str))
    tries = [(name,) for name in single] + [names[:size] for size in range(2, len(names))]
    fitting = (key for key in tries if len(key) < len(names))
    return next((key for key in fitting if _unique(old, key) and _unique(new, key)), None)


def _unique(rows: Sequence[Row], key: _Key) -> bool:
    """Whether these columns differ in all rows and have no NULL or float: those are amounts."""
    found = set()
    for row in rows:
        values = _values(row, key)
        if any(value is None or isinstance(value, float) for value in values) or values in found:
            return False
        found.add(values)
    return True


def _values(row: Row, key: _Key) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)
