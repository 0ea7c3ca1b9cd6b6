"""The gold SQL of each question family, and the queries that narrowly miss it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from text2sql.datasets.pocket.world import Table

AGGREGATES = ("AVG", "MAX", "MIN", "SUM")
_OPERATORS = (">", "<", ">=", "<=")


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


Built = tuple[str, tuple[str, ...]]
"""A gold query and its near misses."""


def _select(slots: Slots, what: str, rest: str = "") -> str:
    return f"SELECT {what} FROM {slots.table.name}{rest}"


def _equal(slots: Slots, operator: str = "=") -> str:
    return f"{slots.category} {operator} '{slots.value}'"


def _compare(slots: Slots, operator: str) -> str:
    return f"{slots.number} {operator} {slots.threshold}"


def _other_operators(slots: Slots) -> list[str]:
    return [operator for operator in _OPERATORS if operator != slots.operator]


def _filtered(what: str) -> Callable[[Slots], Built]:
    """``what`` of the rows with one value in a category."""

    def build(slots: Slots) -> Built:
        misses = [_select(slots, what), _select(slots, what, f" WHERE {_equal(slots, '!=')}")]
        return _select(slots, what, f" WHERE {_equal(slots)}"), tuple(misses)

    return build


def _compared(what: str) -> Callable[[Slots], Built]:
    """``what`` of the rows on one side of a threshold."""

    def build(slots: Slots) -> Built:
        def query(operator: str) -> str:
            return _select(slots, what, f" WHERE {_compare(slots, operator)}")

        return query(slots.operator), tuple(map(query, _other_operators(slots)))

    return build


def _aggregated(slots: Slots, prefix: str, number: str, rest: str) -> Built:
    """An aggregate; the other three aggregates are its near misses."""

    def query(aggregate: str) -> str:
        return _select(slots, f"{prefix}{aggregate}({number})", rest)

    misses = tuple(query(other) for other in AGGREGATES if other != slots.aggregate)
    return query(slots.aggregate), misses


def _agg(slots: Slots) -> Built:
    return _aggregated(slots, "", slots.number, "")


def _agg_eq(slots: Slots) -> Built:
    sql, misses = _aggregated(slots, "", slots.number, f" WHERE {_equal(slots)}")
    return sql, (*misses, _agg(slots)[0])


def _group_agg(slots: Slots) -> Built:
    group = f" GROUP BY {slots.category}"
    return _aggregated(slots, f"{slots.category}, ", slots.number, group)


def _join(slots: Slots) -> str:
    assert slots.parent is not None
    parent = slots.parent.name
    return (
        f" JOIN {parent} ON {slots.table.name}.{slots.key} = {parent}.id"
        f" WHERE {parent}.{slots.parent_category} = '{slots.parent_value}'"
    )


def _join_agg(slots: Slots) -> Built:
    number = f"{slots.table.name}.{slots.number}"
    sql, misses = _aggregated(slots, "", number, _join(slots))
    return sql, (*misses, _agg(slots)[0])


def _join_count(slots: Slots) -> Built:
    return _select(slots, "COUNT(*)", _join(slots)), (_select(slots, "COUNT(*)"),)


def _ordered(slots: Slots, limit: int) -> Built:
    def query(direction: str) -> str:
        return _select(slots, "name", f" ORDER BY {slots.number} {direction} LIMIT {limit}")

    up, down = query("ASC"), query("DESC")
    return (down, (up,)) if slots.descending else (up, (down,))


def _top_group(slots: Slots) -> Built:
    def query(direction: str) -> str:
        order = f" GROUP BY {slots.category} ORDER BY COUNT(*) {direction} LIMIT 1"
        return _select(slots, slots.category, order)

    return query("DESC"), (query("ASC"),)


def _count_and(slots: Slots) -> Built:
    def query(operator: str) -> str:
        where = f" WHERE {_equal(slots)} AND {_compare(slots, operator)}"
        return _select(slots, "COUNT(*)", where)

    one_sided = (
        _select(slots, "COUNT(*)", f" WHERE {_equal(slots)}"),
        _select(slots, "COUNT(*)", f" WHERE {_compare(slots, slots.operator)}"),
    )
    return query(slots.operator), (*map(query, _other_operators(slots)), *one_sided)


def _neq(slots: Slots) -> Built:
    gold, others = (_select(slots, "COUNT(*)", f" WHERE {_equal(slots, op)}") for op in ("!=", "="))
    return gold, (others, _select(slots, "COUNT(*)"))


def _group_count(slots: Slots) -> Built:
    group = f" GROUP BY {slots.category}"
    return _select(slots, f"{slots.category}, COUNT(*)", group), ()


def _distinct_n(slots: Slots) -> Built:
    gold = _select(slots, f"COUNT(DISTINCT {slots.category})")
    return gold, (_select(slots, f"COUNT({slots.category})"),)


BUILDERS: dict[str, Callable[[Slots], Built]] = {
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
"""Writes the gold query of a family from a question's slots."""
