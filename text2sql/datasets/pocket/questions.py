"""Questions with their gold SQL, such that a near miss of the gold gives another result."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from text2sql.datasets.pocket.phrasing import Phrasing
from text2sql.datasets.pocket.world import Database, Field, Table

_AGGREGATES = ("AVG", "MAX", "MIN", "SUM")
_OPERATORS = (">", "<", ">=", "<=")


@dataclass(frozen=True)
class Draft:
    """A question, its gold SQL, and queries that a careless reader would write instead."""

    question: str
    sql: str
    family: str
    near_misses: tuple[str, ...]


@dataclass(frozen=True)
class Slots:
    """What one question is about, in the words of the database."""

    table: Table
    number: str
    category: str
    value: str
    aggregate: str
    operator: str
    threshold: int | float
    descending: bool
    count: int
    parent: Table | None
    key: str
    parent_category: str
    parent_value: str


def ask(
    rng: random.Random,
    database: Database,
    connection: sqlite3.Connection,
    phrasing: Phrasing,
    tries: int = 8,
) -> Draft | None:
    """Draw a question family, then questions of it until one discriminates.

    Returns None where the database carries no such question, or ``tries`` draws found none.
    """
    family = rng.choice(list(phrasing.families))
    for _ in range(tries):
        draft = _compose(rng, database, phrasing, family)
        if draft is None or discriminates(connection, draft):
            return draft
    return None


def _compose(
    rng: random.Random, database: Database, phrasing: Phrasing, family: str
) -> Draft | None:
    slots, words = _draw(rng, database, phrasing, family)
    if slots is None or (family == "top_group" and not _clear_mode(slots)):
        return None
    sql, near_misses = _BUILDERS[family](slots)
    text = rng.choice(phrasing.families[family]).format(**words)
    return Draft(text + rng.choice(("?", "", ".")), sql, family, near_misses)


def discriminates(connection: sqlite3.Connection, draft: Draft) -> bool:
    """True if the gold returns something and no near miss returns the same set of rows."""
    gold = set(connection.execute(draft.sql).fetchall())
    if not gold or gold == {(None,)}:
        return False
    return all(set(connection.execute(sql).fetchall()) != gold for sql in draft.near_misses)


def _draw(
    rng: random.Random, database: Database, phrasing: Phrasing, family: str
) -> tuple[Slots | None, dict[str, Any]]:
    tables = [
        table
        for table in database.tables
        if table.of_kind("reference") or not family.startswith("join")
    ]
    if not tables:
        return None, {}
    table = rng.choice(tables)
    references = table.of_kind("reference")
    parent = database.table(references[0].references) if references else None
    category, value = _category_value(rng, table)
    parent_category, parent_value = _category_value(rng, parent) if parent else ("", "")
    number = rng.choice(table.of_kind("number")).name
    operator, comparison = rng.choice(phrasing.comparisons)
    slots = Slots(
        table=table,
        number=number,
        category=category,
        value=value,
        aggregate=rng.choice(_AGGREGATES),
        operator=operator,
        threshold=rng.choice(table.column(number)),
        descending=rng.random() < 0.5,
        count=rng.randint(2, 5),
        parent=parent,
        key=references[0].name if references else "",
        parent_category=parent_category,
        parent_value=parent_value,
    )
    return slots, _words(rng, slots, phrasing, comparison)


def _category_value(rng: random.Random, table: Table) -> tuple[str, str]:
    field: Field = rng.choice(table.of_kind("category"))
    return field.name, rng.choice(table.column(field.name))


def _words(rng: random.Random, slots: Slots, phrasing: Phrasing, comparison: str) -> dict[str, Any]:
    """The slots as they are said: underscores become spaces."""
    top = phrasing.aggregates["MAX" if slots.descending else "MIN"]
    return {
        "T": slots.table.name,
        "S": slots.table.singular,
        "N": slots.number.replace("_", " "),
        "C": slots.category.replace("_", " "),
        "v": slots.value,
        "agg": rng.choice(phrasing.aggregates[slots.aggregate]),
        "top": rng.choice(top),
        "cmp": comparison.format(x=slots.threshold),
        "k": slots.count,
        "P": slots.parent.name if slots.parent else "",
        "Q": slots.parent.singular if slots.parent else "",
        "PC": slots.parent_category.replace("_", " "),
        "pv": slots.parent_value,
    }


def _clear_mode(slots: Slots) -> bool:
    """True if one value of the category is the most frequent one."""
    counts = [count for _, count in Counter(slots.table.column(slots.category)).most_common(2)]
    return len(counts) == 2 and counts[0] > counts[1]


_Built = tuple[str, tuple[str, ...]]


def _select(slots: Slots, what: str, rest: str = "") -> str:
    return f"SELECT {what} FROM {slots.table.name}{rest}"


def _equal(slots: Slots, operator: str = "=") -> str:
    return f"{slots.category} {operator} '{slots.value}'"


def _compare(slots: Slots, operator: str) -> str:
    return f"{slots.number} {operator} {slots.threshold}"


def _other_operators(slots: Slots) -> list[str]:
    return [operator for operator in _OPERATORS if operator != slots.operator]


def _filtered(what: str) -> Callable[[Slots], _Built]:
    """``what`` of the rows with one value in a category."""

    def build(slots: Slots) -> _Built:
        misses = [_select(slots, what), _select(slots, what, f" WHERE {_equal(slots, '!=')}")]
        return _select(slots, what, f" WHERE {_equal(slots)}"), tuple(misses)

    return build


def _compared(what: str) -> Callable[[Slots], _Built]:
    """``what`` of the rows on one side of a threshold."""

    def build(slots: Slots) -> _Built:
        def query(operator: str) -> str:
            return _select(slots, what, f" WHERE {_compare(slots, operator)}")

        return query(slots.operator), tuple(map(query, _other_operators(slots)))

    return build


def _aggregated(slots: Slots, prefix: str, number: str, rest: str) -> _Built:
    """An aggregate; the other three aggregates are its near misses."""

    def query(aggregate: str) -> str:
        return _select(slots, f"{prefix}{aggregate}({number})", rest)

    misses = tuple(query(other) for other in _AGGREGATES if other != slots.aggregate)
    return query(slots.aggregate), misses


def _agg(slots: Slots) -> _Built:
    return _aggregated(slots, "", slots.number, "")


def _agg_eq(slots: Slots) -> _Built:
    sql, misses = _aggregated(slots, "", slots.number, f" WHERE {_equal(slots)}")
    return sql, (*misses, _agg(slots)[0])


def _group_agg(slots: Slots) -> _Built:
    group = f" GROUP BY {slots.category}"
    return _aggregated(slots, f"{slots.category}, ", slots.number, group)


def _join(slots: Slots) -> str:
    assert slots.parent is not None
    parent = slots.parent.name
    return (
        f" JOIN {parent} ON {slots.table.name}.{slots.key} = {parent}.id"
        f" WHERE {parent}.{slots.parent_category} = '{slots.parent_value}'"
    )


def _join_agg(slots: Slots) -> _Built:
    number = f"{slots.table.name}.{slots.number}"
    sql, misses = _aggregated(slots, "", number, _join(slots))
    return sql, (*misses, _agg(slots)[0])


def _join_count(slots: Slots) -> _Built:
    return _select(slots, "COUNT(*)", _join(slots)), (_select(slots, "COUNT(*)"),)


def _ordered(slots: Slots, limit: int) -> _Built:
    def query(direction: str) -> str:
        return _select(slots, "name", f" ORDER BY {slots.number} {direction} LIMIT {limit}")

    up, down = query("ASC"), query("DESC")
    return (down, (up,)) if slots.descending else (up, (down,))


def _top_group(slots: Slots) -> _Built:
    def query(direction: str) -> str:
        order = f" GROUP BY {slots.category} ORDER BY COUNT(*) {direction} LIMIT 1"
        return _select(slots, slots.category, order)

    return query("DESC"), (query("ASC"),)


def _count_and(slots: Slots) -> _Built:
    def query(operator: str) -> str:
        where = f" WHERE {_equal(slots)} AND {_compare(slots, operator)}"
        return _select(slots, "COUNT(*)", where)

    one_sided = (
        _select(slots, "COUNT(*)", f" WHERE {_equal(slots)}"),
        _select(slots, "COUNT(*)", f" WHERE {_compare(slots, slots.operator)}"),
    )
    return query(slots.operator), (*map(query, _other_operators(slots)), *one_sided)


def _neq(slots: Slots) -> _Built:
    gold, others = (_select(slots, "COUNT(*)", f" WHERE {_equal(slots, op)}") for op in ("!=", "="))
    return gold, (others, _select(slots, "COUNT(*)"))


def _group_count(slots: Slots) -> _Built:
    group = f" GROUP BY {slots.category}"
    return _select(slots, f"{slots.category}, COUNT(*)", group), ()


def _distinct_n(slots: Slots) -> _Built:
    gold = _select(slots, f"COUNT(DISTINCT {slots.category})")
    return gold, (_select(slots, f"COUNT({slots.category})"),)


_BUILDERS: dict[str, Callable[[Slots], _Built]] = {
    "count_all": lambda slots: (_select(slots, "COUNT(*)"), ()),
    "count_eq": _filtered("COUNT(*)"),
    "count_cmp": _compared("COUNT(*)"),
    "count_and": _count_and,
    "neq": _neq,
    "agg": _agg,
    "agg_eq": _agg_eq,
    "list_cmp": _compared("name"),
    "list_eq": _filtered("name"),
    "top1": lambda slots: _ordered(slots, 1),
    "topk": lambda slots: _ordered(slots, slots.count),
    "group_count": _group_count,
    "group_agg": _group_agg,
    "distinct_n": _distinct_n,
    "distinct_l": lambda slots: (_select(slots, f"DISTINCT {slots.category}"), ()),
    "join_agg": _join_agg,
    "join_count": _join_count,
    "top_group": _top_group,
}
