"""What lies beyond a LIMIT, and whether that leaves a gold query's answer undetermined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

from text2sql.datasets.gold.limits import MORE, Cut, Key
from text2sql.datasets.gold.text_keys import numeric_text, text_before_number
from text2sql.datasets.gold.text_numbers import number_in
from text2sql.judge.equality import same
from text2sql.sandbox import QueryResult, Status
from text2sql.sandbox.results import ResultDigest

Row = tuple[Any, ...]


class Flag(StrEnum):
    """What may be wrong with a gold query."""

    LIMIT_CUTS_TIE = "limit_cuts_tie"
    """Rows that sort alike stand on both sides of the LIMIT, or a window takes them, and they
    differ."""
    LIMIT_WITHOUT_ORDER = "limit_without_order"
    """There are more rows than the LIMIT takes, and nothing says which."""
    NULL_SORTS_FIRST = "null_sorts_first"
    """A row that the LIMIT takes is there because its sort key is NULL."""
    TEXT_SORTED_AS_NUMBER = "text_sorted_as_number"
    """What is sorted, or MIN or MAX look at, is text that reads as numbers, and as numbers other
    rows come first; or a text stands before the numbers of its column."""
    UNKNOWN_CAST_TYPE = "unknown_cast_type"
    """A cast names a type that SQLite does not know and takes for another."""
    BARE_COLUMN = "bare_column"
    """A column is neither grouped nor aggregated, and has several values to choose from."""
    CONCAT_WITHOUT_ORDER = "concat_without_order"
    """GROUP_CONCAT or JSON_GROUP_ARRAY puts several values together, and nothing says in which
    order."""
    ASKS_OUTSIDE = "asks_outside"
    """The query asks the clock, the time zone or chance: its answer changes by itself."""
    UNCHECKED = "unchecked"
    """The query's LIMIT or window could not be looked into; the detail says why."""


Finding = tuple[Flag, str]
"""A flag, and what was found, in words."""


def findings_of(
    cut: Cut, result: QueryResult, digest: str, run: Callable[[str], QueryResult]
) -> list[Finding]:
    """Return what a probe's result says of its LIMIT.

    ``digest`` is that of the gold query's result; ``run`` runs another probe on its database.
    """
    if result.status is not Status.OK or result.warnings:
        return [(Flag.UNCHECKED, _where(cut, result.error or "; ".join(result.warnings)))]
    view = _View(cut, result)
    if view.broken:
        return [(Flag.UNCHECKED, _where(cut, view.broken))]
    view.learn_collations(run)
    tie = _tie(view)
    if tie is None and cut.outermost and not same(_digest(view.taken), digest):
        return [(Flag.UNCHECKED, "the query that looks beyond the LIMIT gave other rows")]
    found = (tie, _null_first(view), _as_text(view, run) or _text_first(view))
    return list(filter(None, found))


def as_text_of(result: QueryResult) -> list[Finding]:
    """Return what the probe of a MIN or MAX says: whether it compared numbers as text."""
    for row in result.rows if result.status is Status.OK and not result.warnings else ():
        text, number, others = row
        if not others and number_in(text) not in (None, number):
            detail = f"'{text}' is the extreme as text, {number:g} as a number"
            return [(Flag.TEXT_SORTED_AS_NUMBER, detail)]
    return []


class _View:
    """A probe's rows, divided into the query's own columns and the sort keys."""

    def __init__(self, cut: Cut, result: QueryResult) -> None:
        self.cut = cut
        self.columns = [_column(key, result.columns) for key in cut.keys]
        width = len(result.columns)
        self.broken = ""
        if any(column is None or not -width <= column < width for column in self.columns):
            self.broken = "a sort key is no column of the result"
        self.rows = result.rows
        self.own = [row[: len(row) - cut.extra] for row in result.rows]
        self.collations = [key.collation for key in cut.keys]

    @property
    def taken(self) -> list[Row]:
        """The rows that the LIMIT lets through."""
        return self.own[self.cut.skip : self.cut.skip + self.cut.take]

    def keys(self, at: int) -> Row:
        """The sort keys of a row."""
        return tuple(self.rows[at][column] for column in self.columns if column is not None)

    def order(self, at: int) -> Row:
        """The sort keys of a row as the collations of the query and its tables compare them."""
        keys = zip(self.keys(at), self.collations, strict=True)
        return tuple(_collated(value, collation) for value, collation in keys)

    def learn_collations(self, run: Callable[[str], QueryResult]) -> None:
        """Find out which collation a table declares, where neighbours differ in that alone."""
        for edge in self.edges:
            for at, (one, other) in enumerate(
                zip(self.keys(edge - 1), self.keys(edge), strict=True)
            ):
                if not self.collations[at] and _alike(one, other):
                    self.collations[at] = self._declared(at, edge, run)

    def _declared(self, at: int, edge: int, run: Callable[[str], QueryResult]) -> str:
        """Return the collation of key ``at``, as SQLite compares the row at ``edge``."""
        text = str(self.keys(edge)[at])
        probe = self.cut.collation_probe(at, text)
        result = run(probe) if probe else None
        if result is None or result.status is not Status.OK or len(result.rows) <= edge:
            return ""
        same_letters, same_end = result.rows[edge][-2:]
        if same_letters and text.swapcase() != text:
            return "NOCASE"
        return "RTRIM" if same_end else ""

    @property
    def edges(self) -> list[int]:
        """The rows at which the LIMIT begins or ends, where there is a row on both sides."""
        return [
            edge
            for edge in {self.cut.skip, self.cut.skip + self.cut.take}
            if 0 < edge < len(self.rows)
        ]

    def taken_keys(self) -> list[Row]:
        """The sort keys of the rows that the LIMIT lets through."""
        end = min(len(self.rows), self.cut.skip + self.cut.take)
        return [self.keys(at) for at in range(self.cut.skip, end)]


def _column(key: Key, names: Sequence[str]) -> int | None:
    if isinstance(key.column, int):
        return key.column
    folded = [name.lower() for name in names]
    return folded.index(key.column.lower()) if key.column.lower() in folded else None


def _collated(value: Any, collation: str) -> Any:
    """Return what a collation of SQLite's own compares; NOCASE folds the letters of ASCII alone."""
    if isinstance(value, str) and collation == "NOCASE":
        return "".join(letter.lower() if letter.isascii() else letter for letter in value)
    return value.rstrip(" ") if isinstance(value, str) and collation == "RTRIM" else value


def _alike(one: Any, other: Any) -> bool:
    """Whether two texts differ, but only as one of SQLite's own collations overlooks."""
    if not (isinstance(one, str) and isinstance(other, str)) or one == other:
        return False
    names = ("NOCASE", "RTRIM")
    return any(_collated(one, name) == _collated(other, name) for name in names)


def _digest(rows: Iterable[Row]) -> str:
    digest = ResultDigest()
    for row in rows:
        digest.add(row)
    return digest.digests()[0]


def _tie(view: _View) -> Finding | None:
    """Find rows that sort alike on both sides of where the LIMIT begins or ends."""
    for edge in view.edges:
        if view.order(edge - 1) != view.order(edge):
            continue
        tied = [at for at in range(len(view.rows)) if view.order(at) == view.order(edge)]
        if len({_digest([view.own[at]]) for at in tied}) > 1:
            return _tie_finding(view, edge, tied)
    return None


def _tie_finding(view: _View, edge: int, tied: Sequence[int]) -> Finding:
    reached = tied[-1] == len(view.rows) - 1 and len(tied) > 1
    count = f"at least {len(tied)}" if reached and len(view.rows) > MORE else str(len(tied))
    shown = f"{show(view.own[edge - 1])} and {show(view.own[edge])}"
    if not view.cut.keys:
        detail = f"more rows than the LIMIT takes and no ORDER BY, such as {shown}"
        return Flag.LIMIT_WITHOUT_ORDER, _where(view.cut, detail)
    detail = f"{count} rows sort as {show(view.keys(edge))}, such as {shown}"
    return Flag.LIMIT_CUTS_TIE, _where(view.cut, detail)


def _null_first(view: _View) -> Finding | None:
    for keys, row in zip(view.taken_keys(), view.taken, strict=True):
        nulls = [at for at, value in enumerate(keys) if value is None]
        if any(view.cut.keys[at].nulls_first for at in nulls):
            return Flag.NULL_SORTS_FIRST, _where(view.cut, f"NULL puts {show(row)} first")
    return None


def _as_text(view: _View, run: Callable[[str], QueryResult]) -> Finding | None:
    """Sort by number what was sorted as text, and see whether other rows come first."""
    at = numeric_text([view.keys(at) for at in range(len(view.rows))])
    text = view.cut.numeric_probe(at) if at is not None else None
    if at is None or text is None or len(view.rows) < 2:
        return None
    other = _View(view.cut, result := run(text))
    if result.status is not Status.OK or same(_digest(other.taken), _digest(view.taken)):
        return None
    sorted_as_text, as_number = view.taken_keys()[0][at], _first_number(view, at, other)
    if as_number is None:
        return None
    detail = f"'{sorted_as_text}' comes first as text, {as_number:g} as a number"
    return Flag.TEXT_SORTED_AS_NUMBER, _where(view.cut, detail)


def _first_number(view: _View, at: int, other: _View) -> float | None:
    """Return the number that comes first; None where it is a text that only counts as 0."""
    column = view.columns[at]
    if column is None or not other.taken:
        return None
    return number_in(str(other.rows[view.cut.skip][column]))


def _text_first(view: _View) -> Finding | None:
    """Find a text that comes before numbers, as it is more than any number to SQLite."""
    if not view.cut.keys:
        return None
    keys = [view.keys(at)[0] for at in range(len(view.rows))]
    detail = text_before_number(keys, view.cut.skip, view.cut.take)
    return (Flag.TEXT_SORTED_AS_NUMBER, _where(view.cut, detail)) if detail else None


def _where(cut: Cut, detail: str) -> str:
    return detail if cut.outermost else f"in a query inside: {detail}"


def show(row: Row) -> str:
    """Return a row as it is shown to people, shortened."""
    text = ", ".join("NULL" if value is None else repr(value) for value in row)
    return f"({text[:80]}…)" if len(text) > 80 else f"({text})"
