"""The LIMITs of a gold query, and queries that show what each of them cuts off.

Such a probe is the query with its sort keys as further columns and some more rows than the LIMIT
takes. sqlglot writes it, so its answer counts only if its first rows are those of the gold query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp

from text2sql.datasets.gold.sql import (
    PARSER_ERRORS,
    AsWritten,
    parsed,
    projections,
    unknown_casts,
    without_marks,
    written,
)

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
        query = self.node.copy()
        ordered = _terms(query)[at]
        term = _own_term(query, ordered.this) if isinstance(query, exp.Select) else None
        if term is None:
            return None
        probe, _ = _with_keys(query)
        (number,) = projections(without_marks(term.sql(AsWritten, comments=False)))
        ordered.set("this", exp.cast(number, "DOUBLE"))
        return _write(probe, self.skip + self.take)

    def collation_probe(self, at: int, text: str) -> str | None:
        """Return the probe with two more columns; None if the key is a column of a star.

        They say whether key ``at`` equals ``text`` in swapped case, and with a trailing space:
        a comparison follows the collation that the table declares for a column.
        """
        query = self.node.copy()
        term = _own_term(query, _terms(query)[at].this) if isinstance(query, exp.Select) else None
        if term is None:
            return None
        probe, _ = _with_keys(query)
        assert isinstance(probe, exp.Select)
        others = [exp.Literal.string(other) for other in (text.swapcase(), f"{text} ")]
        tests = [exp.EQ(this=exp.paren(term.copy()), expression=other) for other in others]
        named = [exp.alias_(test, f"same_{number}") for number, test in enumerate(tests)]
        probe.set("expressions", [*probe.expressions, *named])
        return _write(probe, self.skip + self.take)


def cuts_of(sql: str) -> list[Cut]:
    """Return the outermost LIMIT of a query, and those inside it that sort.

    Raises Unreadable if the query, or one of its LIMITs, cannot be followed.
    """
    if unknown_casts(sql):
        raise Unreadable("the parser would change a cast to a type that SQLite does not know")
    try:
        tree = parsed(sql)
        return [
            _cut(node, *bounds, outermost=node is tree)
            for node in tree.find_all(exp.Select, exp.SetOperation)
            if node.args.get("limit") and (node is tree or node.args.get("order"))
            if (bounds := _bounds(node)) is not None
        ]
    except PARSER_ERRORS as error:
        raise Unreadable(str(error).splitlines()[0][:200]) from error


def _bounds(node: exp.Query) -> tuple[int, int] | None:
    """Return (rows skipped, rows taken); None if there is no real limit."""
    take = _whole_number(node.args["limit"].expression)
    offset = node.args.get("offset")
    skip = _whole_number(offset.expression) if offset else 0
    if take < 1:
        return None
    if skip + take > MOST:
        raise ValueError(f"the LIMIT reaches beyond {MOST:,} rows")
    return max(skip, 0), take


def _whole_number(node: exp.Expr) -> int:
    if isinstance(node, exp.Paren):
        return _whole_number(node.this)
    if isinstance(node, exp.Neg):
        return -_whole_number(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        raise ValueError("a LIMIT or OFFSET is not a plain number")
    return int(node.this)


def _cut(node: exp.Query, skip: int, take: int, outermost: bool) -> Cut:
    query = node.copy()
    add_visible_ctes(node, query)
    keys = tuple(_keys(query))
    probe, extra = _with_keys(query.copy())
    return Cut(_write(probe, skip + take), skip, take, keys, extra, outermost, query)


def _keys(query: exp.Query) -> Iterator[Key]:
    """Yield the sort keys; ``_with_keys`` appends those that are not columns of the result."""
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


def _with_keys(query: exp.Query) -> tuple[exp.Query, int]:
    """Append the keys that are not columns of the result; return the query and their number."""
    if not isinstance(query, exp.Select):
        return query, 0
    columns = list(query.expressions)
    for at, term in enumerate(_terms(query)):
        if not _is_ordinal(term.this):
            key = _by_alias(query, term.this)
            columns.append(exp.alias_(key.copy(), f"sort_key_{at}"))
    extra = len(columns) - len(query.expressions)
    query.set("expressions", columns)
    return query, extra


def _terms(query: exp.Query) -> list[Any]:
    order = query.args.get("order")
    return list(order.expressions) if order else []


def _is_ordinal(term: exp.Expr) -> bool:
    return isinstance(term, exp.Literal) and not term.is_string


def _by_alias(query: exp.Select, term: exp.Expr) -> exp.Expr:
    """Return what a lone name in ORDER BY means: SQLite looks for an alias first."""
    if isinstance(term, exp.Column) and not term.table:
        for column in query.expressions:
            if isinstance(column, exp.Alias) and column.alias.lower() == term.name.lower():
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
