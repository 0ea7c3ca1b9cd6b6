"""How a predicted query differs from gold: classes from comparing what both are made of.

A wrong query may differ in several classes, and a difference need not be the reason: another way to
write the same query differs as well. The classes say where to look.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

UNREADABLE = "cannot be compared"
SAME_PARTS = "the same parts, put together differently"
_CONDITIONS = (exp.Where, exp.Having, exp.Join)


@dataclass(frozen=True)
class QueryParts:
    """What a query is made of; names are lower case and without their tables' aliases."""

    tables: frozenset[str]
    columns: tuple[str, ...]
    aggregates: tuple[str, ...]
    condition_columns: tuple[str, ...]
    values: tuple[str, ...]
    groups: tuple[str, ...]
    order: tuple[str, ...]
    distinct: int


@lru_cache(maxsize=4096)
def _parts_of(sql: str) -> QueryParts | None:
    """Take a query apart; None where sqlglot cannot read it."""
    # sqlglot warns of every query that it cannot read; here that is a result, not a warning.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(tree, exp.Query):
        return None
    return QueryParts(
        tables=_tables(tree),
        columns=tuple(sorted(_canonical(column.unalias()) for column in tree.selects)),
        aggregates=tuple(sorted(_canonical(found) for found in tree.find_all(exp.AggFunc))),
        condition_columns=_condition_columns(tree),
        values=_values(tree),
        groups=_below(tree, exp.Group),
        order=_order(tree),
        distinct=sum(1 for _ in tree.find_all(exp.Distinct)),
    )


def differences(predicted: str, gold: str) -> list[str]:
    """Return the classes in which a prediction differs from gold, the most important first.

    Never empty: there are classes for queries that sqlglot cannot read or that have equal parts.
    """
    one, two = _parts_of(predicted), _parts_of(gold)
    if one is None or two is None:
        return [UNREADABLE]
    found = [_tables_differ(one, two), _columns_differ(one, two)]
    if one.aggregates != two.aggregates:
        found.append("wrong aggregate")
    if one.condition_columns != two.condition_columns:
        found.append("wrong filter")
    elif one.values != two.values:
        found.append("wrong filter value")
    if one.groups != two.groups:
        found.append("wrong grouping")
    if one.order != two.order:
        found.append("order or limit")
    if one.distinct != two.distinct:
        found.append("duplicates")
    return [name for name in found if name] or [SAME_PARTS]


def _tables_differ(one: QueryParts, two: QueryParts) -> str:
    extra, lacking = one.tables - two.tables, two.tables - one.tables
    if extra:
        return "wrong tables" if lacking else "extra tables"
    return "missing join" if lacking else ""


def _columns_differ(one: QueryParts, two: QueryParts) -> str:
    if len(one.columns) != len(two.columns):
        return "missing columns" if len(one.columns) < len(two.columns) else "extra columns"
    first, second = (
        Counter(column for column in parts.columns if column not in parts.aggregates)
        for parts in (one, two)
    )
    return "wrong columns" if first != second and first.total() == second.total() else ""


def _tables(tree: exp.Query) -> frozenset[str]:
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    return frozenset(table.name.lower() for table in tree.find_all(exp.Table)) - named


def _condition_columns(tree: exp.Query) -> tuple[str, ...]:
    """Name the columns that conditions compare with values, with the comparison."""
    found = [
        f"{_canonical(column)} {type(condition).__name__}"
        for condition in _comparisons(tree)
        for column in condition.find_all(exp.Column)
    ]
    return tuple(sorted(found))


def _values(tree: exp.Query) -> tuple[str, ...]:
    found = [
        literal.name
        for condition in _comparisons(tree)
        for literal in condition.find_all(exp.Literal)
    ]
    return tuple(sorted(found))


def _comparisons(tree: exp.Query) -> list[exp.Expr]:
    """Return the outermost comparisons with a value, without those that only join tables."""
    return [
        found
        for found in tree.find_all(exp.Predicate)
        if found.find_ancestor(*_CONDITIONS)
        and found.find(exp.Literal, exp.Null)
        and not isinstance(found, exp.Exists)
    ]


def _below(tree: exp.Query, kind: type[exp.Expr]) -> tuple[str, ...]:
    return tuple(
        sorted(_canonical(one) for found in tree.find_all(kind) for one in found.expressions)
    )


def _order(tree: exp.Query) -> tuple[str, ...]:
    kinds = (exp.Ordered, exp.Limit, exp.Offset)
    return tuple(sorted(_canonical(found) for found in tree.find_all(*kinds)))


def _canonical(node: exp.Expr) -> str:
    """Write an expression without tables, aliases, quotes and upper case names."""
    copy = node.copy()
    for column in list(copy.find_all(exp.Column)):
        column.set("table", None)
    for name in copy.find_all(exp.Identifier):
        name.set("quoted", False)
        name.set("this", name.name.lower())
    return copy.sql(dialect="sqlite")
