"""Questions with their gold SQL, such that a near miss of the gold gives another result."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql.datasets.pocket.phrasing import Phrasing
from text2sql.datasets.pocket.world import Database, Table

_AGGREGATES = ("AVG", "MAX", "MIN", "SUM")
_OPERATORS = (">", "<", ">=", "<=")


@dataclass(frozen=True)
class Draft:
    """A question, its gold SQL, and queries that a careless reader would write instead."""

    question: str
    sql: str
    family: str
    near_misses: Sequence[str]


@dataclass(frozen=True)
class _Slots:
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
    parent_category: str
    parent_value: str


def ask(
    rng: random.Random,
    database: Database,
    connection: sqlite3.Connection,
    phrasing: Phrasing,
    weights: Mapping[str, float] | None = None,
    tries: int = 8,
) -> Draft | None:
    """Draw a question family, then questions of it until one discriminates.

    ``weights`` says how often each family is drawn; by default all are equally likely. Returns
    None if the database allows no such question, or ``tries`` draws found none.
    """
    families = list(phrasing.families)
    if weights is None:
        family = rng.choice(families)
    else:
        family = rng.choices(families, [weights[name] for name in families])[0]
    for _ in range(tries):
        draft = _compose(rng, database, phrasing, family)
        if draft is None or _discriminates(connection, draft):
            return draft
    return None


def _discriminates(connection: sqlite3.Connection, draft: Draft) -> bool:
    """True if the gold returns something and no near miss returns the same set of rows."""
    gold = set(connection.execute(draft.sql).fetchall())
    if not gold or gold == {(None,)}:
        return False
    return all(set(connection.execute(sql).fetchall()) != gold for sql in draft.near_misses)


def _compose(
    rng: random.Random, database: Database, phrasing: Phrasing, family: str
) -> Draft | None:
    join = family.startswith("join")
    tables = [one for one in database.tables if one.of_kind("reference") or not join]
    if not tables:
        return None
    table = rng.choice(tables)
    references = table.of_kind("reference")
    parent = database.table(references[0].references) if references else None
    category, value = _category_value(rng, table)
    parent_category, parent_value = _category_value(rng, parent) if parent else ("", "")
    number = rng.choice(table.of_kind("number")).name
    operator, comparison = rng.choice(phrasing.comparisons)
    slots = _Slots(
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
        parent_category=parent_category,
        parent_value=parent_value,
    )
    words = _words(rng, slots, phrasing, comparison)
    modes = [count for _, count in Counter(table.column(category)).most_common(2)]
    if family == "top_group" and (len(modes) < 2 or modes[0] == modes[1]):
        return None  # no value of the category is the most frequent one
    sql, *near_misses = _queries(family, slots)
    text = rng.choice(phrasing.families[family]).format(**words)
    return Draft(text + rng.choice(("?", "", ".")), sql, family, near_misses)


def _category_value(rng: random.Random, table: Table) -> tuple[str, str]:
    name = rng.choice(table.of_kind("category")).name
    return name, rng.choice(table.column(name))


def _words(
    rng: random.Random, slots: _Slots, phrasing: Phrasing, comparison: str
) -> dict[str, Any]:
    """The slots as they are said: underscores become spaces."""
    return {
        "T": slots.table.name,
        "S": slots.table.singular,
        "N": slots.number.replace("_", " "),
        "C": slots.category.replace("_", " "),
        "v": slots.value,
        "agg": rng.choice(phrasing.aggregates[slots.aggregate]),
        "top": rng.choice(phrasing.aggregates["MAX" if slots.descending else "MIN"]),
        "cmp": comparison.format(x=slots.threshold),
        "k": slots.count,
        "P": slots.parent.name if slots.parent else "",
        "Q": slots.parent.singular if slots.parent else "",
        "PC": slots.parent_category.replace("_", " "),
        "pv": slots.parent_value,
    }


def _queries(family: str, slots: _Slots) -> list[str]:
    """Return the gold query of a family, and after it those that narrowly miss it."""
    table, number, category = slots.table.name, slots.number, slots.category
    equal = f" WHERE {category} = '{slots.value}'"
    unequal = f" WHERE {category} != '{slots.value}'"
    grouped = f" GROUP BY {category}"
    what = "name" if family.startswith("list") else "COUNT(*)"

    def select(what: str, rest: str = "") -> str:
        return f"SELECT {what} FROM {table}{rest}"

    def vary(options: Sequence[str], chosen: str, what: str, rest: str = "") -> list[str]:
        """The query with the chosen option in place of ``{}``, and with each of the others."""
        others = [option for option in options if option != chosen]
        return [select(what.format(one), rest.format(one)) for one in (chosen, *others)]

    def aggregates(column: str, rest: str = "", before: str = "") -> list[str]:
        return vary(_AGGREGATES, slots.aggregate, f"{before}{{}}({column})", rest)

    def joined() -> str:
        assert slots.parent is not None
        parent, key = slots.parent.name, slots.table.of_kind("reference")[0].name
        return (
            f" JOIN {parent} ON {table}.{key} = {parent}.id"
            f" WHERE {parent}.{slots.parent_category} = '{slots.parent_value}'"
        )

    match family:
        case "count_eq" | "list_eq":
            return [select(what, equal), select(what), select(what, unequal)]
        case "count_cmp" | "list_cmp":
            compared = f" WHERE {number} {{}} {slots.threshold}"
            return vary(_OPERATORS, slots.operator, what, compared)
        case "count_and":
            both = f"{equal} AND {number} {{}} {slots.threshold}"
            one_sided = f" WHERE {number} {slots.operator} {slots.threshold}"
            found = vary(_OPERATORS, slots.operator, what, both)
            return [*found, select(what, equal), select(what, one_sided)]
        case "neq":
            return [select(what, unequal), select(what, equal), select(what)]
        case "agg":
            return aggregates(number)
        case "agg_eq":
            return [*aggregates(number, equal), aggregates(number)[0]]
        case "group_agg":
            return aggregates(number, grouped, before=f"{category}, ")
        case "join_agg":
            return [*aggregates(f"{table}.{number}", joined()), aggregates(number)[0]]
        case "join_count":
            return [select(what, joined()), select(what)]
        case "top1" | "topk":
            direction = "DESC" if slots.descending else "ASC"
            limit = 1 if family == "top1" else slots.count
            order = f" ORDER BY {number} {{}} LIMIT {limit}"
            return vary(("ASC", "DESC"), direction, "name", order)
        case "top_group":
            order = f"{grouped} ORDER BY COUNT(*) {{}} LIMIT 1"
            return vary(("DESC", "ASC"), "DESC", category, order)
        case "group_count":
            return [select(f"{category}, COUNT(*)", grouped)]
        case "distinct_n":
            return [select(f"COUNT(DISTINCT {category})"), select(f"COUNT({category})")]
        case "distinct_l":
            return [select(f"DISTINCT {category}")]
        case _:
            return [select(what)]
