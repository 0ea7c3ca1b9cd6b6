"""The class of each failed rollout, and how many questions fall into each.

A wrong query may differ from gold in several classes, and a difference need not be the reason:
another way to write the same query differs as well. The classes say where to look.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql.common.render import folded
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout

_CLASSES = {
    "no such column": r"no such column|has no column named",
    "no such table": r"no such table",
    "no such function": r"no such function|wrong number of arguments to function",
    "ambiguous column": r"ambiguous column name",
    "wrong use of an aggregate": r"misuse of (aliased )?(aggregate|window)|aggregate functions are",
    "columns do not fit": r"sub-select returns|do not have the same number of result columns|"
    r"row value misused|(values|columns) .* do(es)? not match|ORDER BY term does not match",
    "syntax error": r"syntax error|incomplete input|unrecognized token|unterminated",
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _CLASSES.items()}
_CONDITIONS = (exp.Where, exp.Having, exp.Join)


def error_class(message: str) -> str:
    """Return the class of an error message of SQLite, ``another error`` where none fits."""
    return next((name for name, one in _PATTERNS.items() if one.search(message)), "another error")


def classes_of(rollout: Rollout, gold: str) -> list[str]:
    """Return the classes of a rollout's failure; none where it matches or says nothing.

    An error has the class of SQLite's message, a wrong result those in which its query differs
    from gold; any other verdict is its own class.
    """
    if rollout.verdict == Verdict.MATCH or not rollout.valid:
        return []
    if rollout.verdict == Verdict.ERROR:
        return [error_class(rollout.error)]
    if rollout.verdict == Verdict.WRONG:
        empty = ["no rows returned"] if not rollout.row_count else []
        return [*differences(rollout.sql or "", gold), *empty]
    return [rollout.verdict.replace("_", " ")]


def count_classes(
    classes: Mapping[str, Sequence[str]], verdicts: Mapping[str, str], shown: int = 5
) -> list[dict[str, Any]]:
    """Count questions by verdict and class, the most frequent first; one may have several classes.

    ``classes`` and ``verdicts`` go by question key; ``keys`` has the first ``shown`` of a class.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for key, names in classes.items():
        for name in names:
            found.setdefault((verdicts[key], name), []).append(key)
    counts = [
        {"verdict": verdict, "name": name, "count": len(keys), "keys": keys[:shown]}
        for (verdict, name), keys in found.items()
    ]
    return sorted(counts, key=lambda one: (-one["count"], one["name"]))


def classify(
    rollouts: Sequence[Rollout], questions: Mapping[str, Question]
) -> dict[str, list[str]]:
    """Return the classes of each failed rollout by question key."""
    found = {r.key: classes_of(r, questions[r.key].sql) for r in rollouts if r.key in questions}
    return {key: names for key, names in found.items() if names}


@dataclass(frozen=True)
class QueryParts:
    """What a query is made of; names are lower case and without their tables' aliases.

    ``conditions`` are the columns that are compared with values, with the comparison.
    """

    tables: frozenset[str]
    columns: tuple[str, ...]
    aggregates: tuple[str, ...]
    conditions: tuple[str, ...]
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
    # The outermost comparisons with a value, without those that only join tables.
    compared = [
        found
        for found in tree.find_all(exp.Predicate)
        if found.find_ancestor(*_CONDITIONS)
        and found.find(exp.Literal, exp.Null)
        and not isinstance(found, exp.Exists)
    ]
    conditions = (
        f"{_canonical(column)} {type(condition).__name__}"
        for condition in compared
        for column in condition.find_all(exp.Column)
    )
    values = (found.name for one in compared for found in one.find_all(exp.Literal))
    views = {folded(view.alias) for view in tree.find_all(exp.CTE)}
    return QueryParts(
        tables=frozenset(folded(table.name) for table in tree.find_all(exp.Table)) - views,
        columns=_all(column.unalias() for column in tree.selects),
        aggregates=_all(tree.find_all(exp.AggFunc)),
        conditions=tuple(sorted(conditions)),
        values=tuple(sorted(values)),
        groups=_all(one for group in tree.find_all(exp.Group) for one in group.expressions),
        order=_all(tree.find_all(exp.Ordered, exp.Limit, exp.Offset)),
        distinct=sum(1 for _ in tree.find_all(exp.Distinct)),
    )


def differences(predicted: str, gold: str) -> list[str]:
    """Return the classes in which a prediction differs from gold, the most important first.

    Never empty: there are classes for queries that sqlglot cannot read or that have equal parts.
    """
    one, two = _parts_of(predicted), _parts_of(gold)
    if one is None or two is None:
        return ["cannot be compared"]
    found = []
    if one.tables - two.tables:
        found.append("wrong tables" if two.tables - one.tables else "extra tables")
    elif two.tables - one.tables:
        found.append("missing join")
    found += _columns_differ(one, two)
    if one.aggregates != two.aggregates:
        found.append("wrong aggregate")
    if one.conditions != two.conditions:
        found.append("wrong filter")
    elif one.values != two.values:
        found.append("wrong filter value")
    if one.groups != two.groups:
        found.append("wrong grouping")
    if one.order != two.order:
        found.append("order or limit")
    if one.distinct != two.distinct:
        found.append("duplicates")
    return found or ["the same parts, put together differently"]


def _columns_differ(one: QueryParts, two: QueryParts) -> list[str]:
    if len(one.columns) != len(two.columns):
        return ["missing columns" if len(one.columns) < len(two.columns) else "extra columns"]
    first, second = (
        Counter(column for column in parts.columns if column not in parts.aggregates)
        for parts in (one, two)
    )
    # Different aggregates are a class of their own: only what is left decides here.
    return ["wrong columns"] if first != second and first.total() == second.total() else []


def _all(nodes: Iterable[exp.Expr]) -> tuple[str, ...]:
    return tuple(sorted(map(_canonical, nodes)))


def _canonical(node: exp.Expr) -> str:
    """Write an expression without tables, aliases, quotes and upper case names."""
    copy = node.copy()
    for column in list(copy.find_all(exp.Column)):
        column.set("table", None)
    for name in copy.find_all(exp.Identifier):
        name.set("quoted", False)
        name.set("this", folded(name.name))
    return copy.sql(dialect="sqlite")
