"""Near-misses of a query: SQL that differs from it in one thing a policy may get wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql.errors import Text2SqlError
from text2sql.judge.strength.change import DIALECT, Change, Kind
from text2sql.judge.strength.conditions import comparisons, connectives, dropped_conditions
from text2sql.judge.strength.keys import Keys
from text2sql.judge.strength.literals import literals
from text2sql.judge.strength.shape import aggregates, distincts, joins, limits, orders


@dataclass(frozen=True)
class NearMiss:
    """A near-miss: what was changed, in words, and its SQL.

    ``neutral`` says why it returns the same set of rows on every database with this schema;
    such a near-miss is equivalent by construction and not run.
    """

    kind: Kind
    change: str
    sql: str
    neutral: str = ""


@dataclass(frozen=True)
class NearMisses:
    """A query as sqlglot writes it, unchanged, and its near-misses, each SQL once."""

    unchanged: str
    found: tuple[NearMiss, ...]


def near_misses(sql: str, keys: Keys) -> NearMisses:
    """Return the near-misses of a query; raises Text2SqlError where sqlglot cannot read it."""
    tree = _parsed(sql)
    unchanged = tree.sql(dialect=DIALECT)
    place = {id(node): number for number, node in enumerate(tree.walk())}
    found: dict[str, NearMiss] = {}
    for change in _changes(tree, keys):
        text = _rendered(tree, place[id(change.place)], change)
        if text != unchanged:
            found.setdefault(text, NearMiss(change.kind, change.text, text, change.neutral))
    return NearMisses(unchanged, tuple(found.values()))


def _parsed(sql: str) -> exp.Query:
    try:
        trees = [tree for tree in sqlglot.parse(sql, dialect=DIALECT) if tree is not None]
    except (SqlglotError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise Text2SqlError(f"sqlglot cannot read the query: {reason[:300]}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise Text2SqlError("sqlglot does not read the query as one SELECT.")
    return _with_commas(trees[0]) if "cross" not in sql.lower() else trees[0]


def _with_commas(tree: exp.Query) -> exp.Query:
    """Write ``FROM a, b`` as it was: CROSS JOIN would bind SQLite to the order of the tables."""
    for join in tree.find_all(exp.Join):
        if join.kind == "CROSS":
            join.set("kind", None)
    return tree


def _changes(tree: exp.Query, keys: Keys) -> Iterator[Change]:
    with_keys = (comparisons, dropped_conditions, connectives, distincts, joins)
    rest = (aggregates, orders, limits)
    return chain(*(changes(tree, keys) for changes in (*with_keys, *rest)), literals(tree))


def _rendered(tree: exp.Query, place: int, change: Change) -> str:
    copy = tree.copy()
    node = next(node for number, node in enumerate(copy.walk()) if number == place)
    change.edit(node)
    return copy.sql(dialect=DIALECT, copy=False)
