"""Questions with their gold SQL, such that a near miss of the gold gives another result."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from text2sql.datasets.pocket.gold import AGGREGATES, BUILDERS, Slots
from text2sql.datasets.pocket.phrasing import Phrasing
from text2sql.datasets.pocket.world import Database, Field, Table


@dataclass(frozen=True)
class Draft:
    """A question, its gold SQL, and queries that a careless reader would write instead."""

    question: str
    sql: str
    family: str
    near_misses: tuple[str, ...]


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
        if draft is None or discriminates(connection, draft):
            return draft
    return None


def _compose(
    rng: random.Random, database: Database, phrasing: Phrasing, family: str
) -> Draft | None:
    slots, words = _draw(rng, database, phrasing, family)
    if slots is None or (family == "top_group" and not _clear_mode(slots)):
        return None
    sql, near_misses = BUILDERS[family](slots)
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
        aggregate=rng.choice(AGGREGATES),
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
