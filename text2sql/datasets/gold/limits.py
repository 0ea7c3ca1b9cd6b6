"""The LIMITs of a gold query, and queries that show what each of them cuts off.

A probe is the query with its sort keys as further columns and some rows more than the LIMIT
lets through. sqlglot finds the parts; what a probe says holds only where its first rows are
those of the gold query itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql.datasets.gold.casts import unknown_casts
from text2sql.datasets.gold.parsing import AsWritten, expression, parsed, written
from text2sql.datasets.gold.text_numbers import without_marks

MORE = 20
"""Rows that a probe reads beyond the LIMIT."""

MOST = 1_000
"""A LIMIT that reaches further is not looked into."""


class Unreadable(Exception):
    """A query that the parser cannot follow; ``str`` says why."""


@dataclass(frozen=True)
class Key:
    """A sort key: where a probe's rows have it, and how it sorts.

    ``column`` counts from 0, from the end where it is negative; a name is that of a column.
    ``collation`` is what the query says of it, in capitals.
    """

    column: int | str
    nulls_first: bool
    collation: str = ""


@dataclass(frozen=True)
class Cut:
    """One LIMIT: it lets ``take`` rows through after ``skip``, sorted by ``keys``.

    ``extra`` columns at the end of the probe's rows are not the query's own. ``outermost``
    tells whether the rows are the gold query's result, or those of a query inside it.
    """

    probe: str
    skip: int
    take: int
    keys: tuple[Key, ...]
    extra: int
    outermost: bool
    node: exp.Query

    def numeric_probe(self, at: int) -> str | None:
        """Return the probe sorted by the number that key ``at`` is read as; None if it cannot."""
        query = self.node.copy()
        ordered = _terms(query)[at]
        term = _own_term(query, ordered.this) if isinstance(query, exp.Select) else None
        if term is None:
            return None
        probe, _ = _with_keys(query)
        plain = without_marks(term.sql(AsWritten, comments=False))
        ordered.set("this", exp.cast(expression(plain), "DOUBLE"))
        return _write(probe, self.skip + self.take)

    def collation_probe(self, at: int, text: str) -> str | None:
        """Return the probe with two columns more; None where the key is a star's column.

        They say whether key ``at`` equals ``text`` in the other case, and with a space behind it:
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
    """Return the LIMITs of a query that sort, and the outermost one in any case.

    Raises Unreadable where the query, or one of its LIMITs, cannot be followed.
    """
    if unknown_casts(sql):
        raise Unreadable("the parser would change a cast to a type that SQLite does not know")
    try:
        return list(_cuts(parsed(sql)))
    except (SqlglotError, RecursionError, ValueError) as error:
        raise Unreadable(str(error).splitlines()[0][:200]) from error


def _cuts(tree: exp.Expr) -> Iterator[Cut]:
    for node in tree.find_all(exp.Select, exp.SetOperation):
        if node.args.get("limit") and (node is tree or node.args.get("order")):
            bounds = _bounds(node)
            if bounds is not None:
                yield _cut(node, *bounds, outermost=node is tree)


def _bounds(node: exp.Query) -> tuple[int, int] | None:
    """Return (rows skipped, rows let through); None where there is no real limit."""
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
        raise ValueError("a LIMIT or OFFSET is no plain number")
    return int(node.this)


def _cut(node: exp.Query, skip: int, take: int, outermost: bool) -> Cut:
    query = node.copy()
    add_visible_ctes(node, query)
    keys = tuple(_keys(query))
    probe, extra = _with_keys(query.copy())
    return Cut(_write(probe, skip + take), skip, take, keys, extra, outermost, query)


def _keys(query: exp.Query) -> Iterator[Key]:
    """Yield the sort keys; those that are no column of the result are appended to it."""
    terms = _terms(query)
    appended = [not _is_ordinal(term.this) for term in terms]
    for at, term in enumerate(terms):
        nulls_first = bool(term.args.get("nulls_first"))
        if _is_ordinal(term.this):
            yield Key(int(term.this.this) - 1, nulls_first)
        elif isinstance(query, exp.Select):
            yield Key(-sum(appended[at:]), nulls_first, _collation(term.this))
        elif isinstance(term.this, exp.Column):
            yield Key(term.this.name, nulls_first)
        else:
            raise ValueError("a compound query sorts by an expression")


def _collation(term: exp.Expr) -> str:
    return str(term.expression.name).upper() if isinstance(term, exp.Collate) else ""


def _with_keys(query: exp.Query) -> tuple[exp.Query, int]:
    """Append the keys that are no column of the result; return the query and how many."""
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
    """Return what a lone name in ORDER BY stands for: SQLite looks for an alias first."""
    if isinstance(term, exp.Column) and not term.table:
        for column in query.expressions:
            if isinstance(column, exp.Alias) and column.alias.lower() == term.name.lower():
                return column.this
    return term


def _own_term(query: exp.Select, term: exp.Expr) -> exp.Expr | None:
    """Return the expression that a term sorts by; None for a column of a star."""
    return column_at(query, int(term.this)) if _is_ordinal(term) else _by_alias(query, term)


def column_at(query: exp.Select, number: int) -> exp.Expr | None:
    """Return what the result's column of a number (from 1) is; None behind a star."""
    before = query.expressions[:number]
    if not 0 < number == len(before) or any(column.is_star for column in before):
        return None
    return cast(exp.Expr, before[-1].unalias())


def own_terms(query: exp.Select) -> bool:
    """Let an ORDER BY name no column of the result any more; False where it cannot."""
    for ordered in _terms(query):
        if (term := _own_term(query, ordered.this)) is None:
            return False
        ordered.set("this", term.copy())
    return True


def add_visible_ctes(node: exp.Query, query: exp.Query) -> None:
    """Give a query inside another the WITH clauses that it can see there."""
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
