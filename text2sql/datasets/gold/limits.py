"""The LIMITs of a gold query, and whether the rows that they cut off leave its answer open.

A probe is the query with its sort keys as further columns and some more rows than the LIMIT takes.
sqlglot writes it, so its answer counts only if its first rows are those of the gold query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp

from text2sql.common.render import folded
from text2sql.datasets.gold.flags import Finding, Flag, Row, show
from text2sql.datasets.gold.sql import (
    PARSER_ERRORS,
    AsWritten,
    number_in,
    parsed,
    projections,
    unknown_casts,
    without_marks,
    written,
)
from text2sql.judge.equality import same
from text2sql.sandbox import QueryResult, Status
from text2sql.sandbox.results import ResultDigest

MORE = 20
"""Rows that a probe reads beyond the LIMIT."""

MOST = 1_000
"""The last row that a LIMIT may reach to be checked."""


class Unreadable(Exception):
    """A query that cannot be followed; ``str`` says why."""


@dataclass(frozen=True)
class Key:
    """A sort key: which column of a probe's rows it is, and how it sorts.

    ``column`` is an index, from the end if negative, or a column's name. ``collation`` is the
    query's own, in capitals.
    """

    column: int | str
    nulls_first: bool
    collation: str = ""


@dataclass(frozen=True)
class Cut:
    """One LIMIT: it takes ``take`` rows after ``skip``, sorted by ``keys``.

    The last ``extra`` columns of the probe's rows are not the query's own. ``outermost`` says
    whether the rows are the gold query's result, or those of a query inside it.
    """

    probe: str
    skip: int
    take: int
    keys: tuple[Key, ...]
    extra: int
    outermost: bool
    node: exp.Query

    def numeric_probe(self, at: int) -> str | None:
        """Return the probe sorted by the number in key ``at``; None for a column of a star."""
        if (found := self._with_term(at)) is None:
            return None
        query, ordered, term = found
        (number,) = projections(without_marks(term.sql(AsWritten, comments=False)))
        ordered.set("this", exp.cast(number, "DOUBLE"))
        return _write(query, self.skip + self.take)

    def collation_probe(self, at: int, text: str) -> str | None:
        """Return the probe with two more columns; None if the key is a column of a star.

        They say whether key ``at`` equals ``text`` in swapped case, and with a trailing space:
        a comparison follows the collation that the table declares for a column.
        """
        if (found := self._with_term(at)) is None:
            return None
        query, _, term = found
        for number, other in enumerate((text.swapcase(), f"{text} ")):
            test = exp.EQ(this=exp.paren(term.copy()), expression=exp.Literal.string(other))
            query.append("expressions", exp.alias_(test, f"same_{number}"))
        return _write(query, self.skip + self.take)

    def _with_term(self, at: int) -> tuple[exp.Select, exp.Expr, exp.Expr] | None:
        """Return a copy of the query with its keys, its term ``at``, and what that sorts by."""
        query = self.node.copy()
        if not isinstance(query, exp.Select):
            return None
        ordered = _terms(query)[at]
        term = _own_term(query, ordered.this)
        _append_keys(query)
        return None if term is None else (query, ordered, term)


def cuts_of(sql: str) -> list[Cut]:
    """Return a query's outermost LIMIT, and those inside it that sort; or raise Unreadable."""
    if unknown_casts(sql):
        raise Unreadable("the parser would change a cast to a type that SQLite does not know")
    cuts = []
    try:
        tree = parsed(sql)
        for node in tree.find_all(exp.Select, exp.SetOperation):
            if not node.args.get("limit") or not (node is tree or node.args.get("order")):
                continue
            take, offset = _whole_number(node.args["limit"].expression), node.args.get("offset")
            skip = _whole_number(offset.expression) if offset else 0
            if take < 1:
                continue
            if skip + take > MOST:
                raise ValueError(f"the LIMIT reaches beyond {MOST:,} rows")
            query, skip = node.copy(), max(skip, 0)
            add_visible_ctes(node, query)
            keys, probe = tuple(_keys(query)), query.copy()
            extra = _append_keys(probe)
            text = _write(probe, skip + take)
            cuts.append(Cut(text, skip, take, keys, extra, node is tree, query))
    except PARSER_ERRORS as error:
        raise Unreadable(str(error).splitlines()[0][:200]) from error
    return cuts


def _whole_number(node: exp.Expr) -> int:
    if isinstance(node, exp.Paren):
        return _whole_number(node.this)
    if isinstance(node, exp.Neg):
        return -_whole_number(node.this)
    if not _is_ordinal(node):
        raise ValueError("a LIMIT or OFFSET is not a plain number")
    return int(node.this)


def _keys(query: exp.Query) -> Iterator[Key]:
    """Yield the sort keys; ``_append_keys`` appends those that are not columns of the result."""
    terms = _terms(query)
    appended = [not _is_ordinal(term.this) for term in terms]
    for at, term in enumerate(terms):
        nulls_first = bool(term.args.get("nulls_first"))
        if _is_ordinal(term.this):
            yield Key(int(term.this.this) - 1, nulls_first)
        elif isinstance(query, exp.Select):
            collated = isinstance(term.this, exp.Collate)
            collation = str(term.this.expression.name).upper() if collated else ""
            yield Key(-sum(appended[at:]), nulls_first, collation)
        elif isinstance(term.this, exp.Column):
            yield Key(term.this.name, nulls_first)
        else:
            raise ValueError("a compound query sorts by an expression")


def _append_keys(query: exp.Query) -> int:
    """Append the keys that are not columns of the result; return their number."""
    if not isinstance(query, exp.Select):
        return 0
    keys = [
        exp.alias_(_by_alias(query, term.this).copy(), f"sort_key_{at}")
        for at, term in enumerate(_terms(query))
        if not _is_ordinal(term.this)
    ]
    query.set("expressions", [*query.expressions, *keys])
    return len(keys)


def _terms(query: exp.Query) -> list[Any]:
    order = query.args.get("order")
    return list(order.expressions) if order else []


def _is_ordinal(term: exp.Expr) -> bool:
    return isinstance(term, exp.Literal) and not term.is_string


def _by_alias(query: exp.Select, term: exp.Expr) -> exp.Expr:
    """Return what a lone name in ORDER BY means: SQLite looks for an alias first."""
    if isinstance(term, exp.Column) and not term.table:
        for column in query.expressions:
            if isinstance(column, exp.Alias) and folded(column.alias) == folded(term.name):
                return column.this
    return term


def _own_term(query: exp.Select, term: exp.Expr) -> exp.Expr | None:
    """Return the expression that a term sorts by; None for a column of a star."""
    return column_at(query, int(term.this)) if _is_ordinal(term) else _by_alias(query, term)


def column_at(query: exp.Select, number: int) -> exp.Expr | None:
    """Return the result's column by its number (from 1); None after a star."""
    before = query.expressions[:number]
    if not 0 < number == len(before) or any(column.is_star for column in before):
        return None
    return cast(exp.Expr, before[-1].unalias())


def spell_out_order(query: exp.Select) -> bool:
    """Replace numbers and aliases in ORDER BY with their expressions; False if impossible."""
    for ordered in _terms(query):
        if (term := _own_term(query, ordered.this)) is None:
            return False
        ordered.set("this", term.copy())
    return True


def add_visible_ctes(node: exp.Query, query: exp.Query) -> None:
    """Give the copy of a query inside another the WITH clauses that it can see there."""
    seen: list[exp.Expr] = []
    inside: exp.Expr = node
    while inside.parent is not None:
        inside, below = inside.parent, inside
        with_ = inside.args.get("with_")
        if isinstance(inside, exp.With):
            seen = [*inside.expressions[: inside.expressions.index(below)], *seen]
        elif with_ is not None and with_ is not below:
            seen = [*with_.expressions, *seen]
    if seen:
        own = query.args.get("with_")
        ctes = [cte.copy() for cte in seen] + (own.expressions if own else [])
        query.set("with_", exp.With(expressions=ctes))


def _write(query: exp.Query, limit: int) -> str:
    query.set("offset", None)
    query.set("limit", exp.Limit(expression=exp.Literal.number(limit + MORE)))
    return written(query)


def limit_findings(
    cut: Cut, result: QueryResult, digest: str, run: Callable[[str], QueryResult]
) -> list[Finding]:
    """Return the problems of a LIMIT that its probe's result shows.

    ``digest`` is that of the gold query's result; ``run`` runs another probe on its database.
    """
    found: list[Finding | None]
    try:
        if result.status is not Status.OK or result.warnings:
            raise Unreadable(result.error or "; ".join(result.warnings))
        view = _View(cut, result)
        view.learn_collations(run)
        tie = _tie(view)
        if tie is None and cut.outermost and not same(_digest(view.taken), digest):
            raise Unreadable("the query with rows beyond the LIMIT returned different rows")
        found = [tie, _null_first(view), _as_text(view, run) or _text_first(view)]
    except Unreadable as error:
        found = [(Flag.UNCHECKED, str(error))]
    where = "" if cut.outermost else "in an inner query: "
    return [(flag, where + detail) for flag, detail in filter(None, found)]


class _View:
    """A probe's rows, divided into the query's own columns and the sort keys."""

    def __init__(self, cut: Cut, result: QueryResult) -> None:
        names = [folded(name) for name in result.columns]
        try:
            self.columns = [
                names.index(folded(key.column))
                if isinstance(key.column, str)
                else range(len(names))[key.column]
                for key in cut.keys
            ]
        except (ValueError, IndexError) as error:
            raise Unreadable("a sort key is not a column of the result") from error
        self.cut = cut
        self.rows = result.rows
        self.own = [row[: len(row) - cut.extra] for row in result.rows]
        self.keys = [tuple(row[column] for column in self.columns) for row in result.rows]
        self.collations = [key.collation for key in cut.keys]
        end = cut.skip + cut.take
        self.taken, self.taken_keys = self.own[cut.skip : end], self.keys[cut.skip : end]
        self.edges = [edge for edge in {cut.skip, end} if 0 < edge < len(self.rows)]
        """The rows at which the LIMIT begins or ends, with a row on both sides."""

    def order(self, at: int) -> Row:
        """The sort keys of a row as the collations of the query and its tables compare them."""
        return tuple(map(_collated, self.keys[at], self.collations))

    def learn_collations(self, run: Callable[[str], QueryResult]) -> None:
        """Ask for the table's collation if the rows around an edge differ only by a collation."""
        for edge in self.edges:
            pairs = zip(self.keys[edge - 1], self.keys[edge], strict=True)
            for at, (one, other) in enumerate(pairs):
                alike = (
                    _collated(one, name) == _collated(other, name) for name in ("NOCASE", "RTRIM")
                )
                if self.collations[at] or one == other or not any(alike):
                    continue
                probe = self.cut.collation_probe(at, other)
                result = run(probe) if probe else None
                if result is None or result.status is not Status.OK or len(result.rows) <= edge:
                    continue
                same_letters, same_end = result.rows[edge][-2:]
                if same_letters and other.swapcase() != other:
                    self.collations[at] = "NOCASE"
                elif same_end:
                    self.collations[at] = "RTRIM"


def _collated(value: Any, collation: str) -> Any:
    """Return what one of SQLite's own collations compares; NOCASE folds ASCII letters only."""
    if isinstance(value, str) and collation == "NOCASE":
        return folded(value)
    return value.rstrip(" ") if isinstance(value, str) and collation == "RTRIM" else value


def _digest(rows: Sequence[Row]) -> str:
    digest = ResultDigest()
    digest.add(rows)
    return digest.digests()[0]


def _tie(view: _View) -> Finding | None:
    """Find different rows that sort alike on both sides of the LIMIT's beginning or end."""
    for edge in view.edges:
        if view.order(edge - 1) != view.order(edge):
            continue
        tied = [at for at in range(len(view.rows)) if view.order(at) == view.order(edge)]
        if len({_digest([view.own[at]]) for at in tied}) == 1:
            continue
        shown = f"{show(view.own[edge - 1])} and {show(view.own[edge])}"
        if not view.cut.keys:
            detail = f"more rows than the LIMIT takes and no ORDER BY, such as {shown}"
            return Flag.LIMIT_WITHOUT_ORDER, detail
        # A tie that reaches the last row that was read may go on.
        reached = tied[-1] == len(view.rows) - 1 and len(view.rows) > MORE
        count = f"at least {len(tied)}" if reached else str(len(tied))
        detail = f"{count} rows sort as {show(view.keys[edge])}, such as {shown}"
        return Flag.LIMIT_CUTS_TIE, detail
    return None


def _null_first(view: _View) -> Finding | None:
    for keys, row in zip(view.taken_keys, view.taken, strict=True):
        pairs = zip(keys, view.cut.keys, strict=True)
        if any(value is None and key.nulls_first for value, key in pairs):
            return Flag.NULL_SORTS_FIRST, f"NULL puts {show(row)} first"
    return None


def _as_text(view: _View, run: Callable[[str], QueryResult]) -> Finding | None:
    """Sort by number what was sorted as text, and see if other rows come first."""
    at = _numeric_text_key(view.keys)
    probe = view.cut.numeric_probe(at) if at is not None else None
    if at is None or probe is None or len(view.rows) < 2:
        return None
    result = run(probe)
    other = _View(view.cut, result) if result.status is Status.OK else None
    if other is None or not other.taken or same(_digest(other.taken), _digest(view.taken)):
        return None
    as_number = number_in(str(other.taken_keys[0][at]))
    if as_number is None:  # a text that only counts as 0
        return None
    detail = f"'{view.taken_keys[0][at]}' comes first as text, {as_number:g} as a number"
    return Flag.TEXT_SORTED_AS_NUMBER, detail


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
    keys: list[Any] = [one[0] for one in view.keys]
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
    return Flag.TEXT_SORTED_AS_NUMBER, detail
