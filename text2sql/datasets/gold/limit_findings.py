"""Whether the rows beyond a LIMIT leave a gold query's answer undetermined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from text2sql.datasets.gold.flags import Finding, Flag, Row, show
from text2sql.datasets.gold.limits import MORE, Cut, Key
from text2sql.datasets.gold.sql import number_in
from text2sql.judge.equality import same
from text2sql.sandbox import QueryResult, Status
from text2sql.sandbox.results import ResultDigest


def limit_findings(
    cut: Cut, result: QueryResult, digest: str, run: Callable[[str], QueryResult]
) -> list[Finding]:
    """Return the problems of a LIMIT that its probe's result shows.

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
        return [(Flag.UNCHECKED, "the query with rows beyond the LIMIT returned different rows")]
    found = (tie, _null_first(view), _as_text(view, run) or _text_first(view))
    return list(filter(None, found))


class _View:
    """A probe's rows, divided into the query's own columns and the sort keys."""

    def __init__(self, cut: Cut, result: QueryResult) -> None:
        self.cut = cut
        self.columns = [_column(key, result.columns) for key in cut.keys]
        width = len(result.columns)
        self.broken = ""
        if any(column is None or not -width <= column < width for column in self.columns):
            self.broken = "a sort key is not a column of the result"
        self.rows = result.rows
        self.own = [row[: len(row) - cut.extra] for row in result.rows]
        self.collations = [key.collation for key in cut.keys]

    @property
    def taken(self) -> list[Row]:
        """The rows that the LIMIT takes."""
        return self.own[self.cut.skip : self.cut.skip + self.cut.take]

    def keys(self, at: int) -> Row:
        """The sort keys of a row."""
        return tuple(self.rows[at][column] for column in self.columns if column is not None)

    def order(self, at: int) -> Row:
        """The sort keys of a row as the collations of the query and its tables compare them."""
        keys = zip(self.keys(at), self.collations, strict=True)
        return tuple(_collated(value, collation) for value, collation in keys)

    def learn_collations(self, run: Callable[[str], QueryResult]) -> None:
        """Ask for the table's collation if the rows around an edge differ only by a collation."""
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
        """The rows at which the LIMIT begins or ends, with a row on both sides."""
        return [
            edge
            for edge in {self.cut.skip, self.cut.skip + self.cut.take}
            if 0 < edge < len(self.rows)
        ]

    def taken_keys(self) -> list[Row]:
        """The sort keys of the rows that the LIMIT takes."""
        end = min(len(self.rows), self.cut.skip + self.cut.take)
        return [self.keys(at) for at in range(self.cut.skip, end)]


def _column(key: Key, names: Sequence[str]) -> int | None:
    if isinstance(key.column, int):
        return key.column
    folded = [name.lower() for name in names]
    return folded.index(key.column.lower()) if key.column.lower() in folded else None


def _collated(value: Any, collation: str) -> Any:
    """Return what one of SQLite's own collations compares; NOCASE folds ASCII letters only."""
    if isinstance(value, str) and collation == "NOCASE":
        return "".join(letter.lower() if letter.isascii() else letter for letter in value)
    return value.rstrip(" ") if isinstance(value, str) and collation == "RTRIM" else value


def _alike(one: Any, other: Any) -> bool:
    """Whether two different texts are equal in one of SQLite's own collations."""
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
    """Find different rows that sort alike on both sides of the LIMIT's beginning or end."""
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
    """Sort by number what was sorted as text, and see if other rows come first."""
    at = _numeric_text_key([view.keys(row) for row in range(len(view.rows))])
    probe = view.cut.numeric_probe(at) if at is not None else None
    if at is None or probe is None or len(view.rows) < 2:
        return None
    other = _View(view.cut, result := run(probe))
    if result.status is not Status.OK or same(_digest(other.taken), _digest(view.taken)):
        return None
    column = view.columns[at]
    if column is None or not other.taken:
        return None
    as_number = number_in(str(other.rows[view.cut.skip][column]))
    if as_number is None:  # a text that only counts as 0
        return None
    detail = f"'{view.taken_keys()[0][at]}' comes first as text, {as_number:g} as a number"
    return Flag.TEXT_SORTED_AS_NUMBER, _where(view.cut, detail)


def _numeric_text_key(keys: Sequence[Row]) -> int | None:
    """Return the first sort key with numbers in text only; NULL and blanks do not count."""
    for at in range(len(keys[0]) if keys else 0):
        column = (row[at] for row in keys if row[at] is not None)
        values = [value for value in column if not isinstance(value, str) or value.strip()]
        if values and all(number_in(value) is not None for value in values):
            return at
    return None


def _text_first(view: _View) -> Finding | None:
    """Find a text that the LIMIT takes and that sorts before a number.

    To SQLite any text is more than any number. The same happens to ``n/a`` beside numbers that
    are texts themselves, if it is the only word among several of them.
    """
    if not view.cut.keys:
        return None
    keys = [view.keys(at)[0] for at in range(len(view.rows))]
    read = [number_in(key) for key in keys]
    pairs = list(zip(keys, read, strict=True))
    words = {key for key, number in pairs if isinstance(key, str) and number is None}
    if len(words) == 1 and len(set(read) - {None}) > 1:
        keys = [key if number is None else number for key, number in pairs]
    skip, take = view.cut.skip, view.cut.take
    texts = [at for at, key in enumerate(keys[: skip + take]) if isinstance(key, str)]
    numbers = [at for at, key in enumerate(keys) if isinstance(key, int | float)]
    if not (texts and numbers) or texts[0] > numbers[-1] or texts[-1] < skip:
        return None
    text, number = keys[texts[0]][:40], keys[numbers[-1]]
    detail = f"{text!r}, a text, comes before {number:g}, a number"
    return Flag.TEXT_SORTED_AS_NUMBER, _where(view.cut, detail)


def _where(cut: Cut, detail: str) -> str:
    return detail if cut.outermost else f"in an inner query: {detail}"
