"""One change to a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

DIALECT = "sqlite"


class Kind(StrEnum):
    """What a near-miss changes."""

    COMPARISON = "comparison"
    """``<`` and ``<=``, ``>`` and ``>=``, ``=`` and ``!=``; BETWEEN without its ends."""
    DISTINCT = "distinct"
    """DISTINCT of a SELECT, added or dropped."""
    JOIN = "join"
    """An inner join made a left one, or the reverse."""
    AGGREGATE = "aggregate"
    """SUM, AVG and COUNT, MIN and MAX, COUNT(x) and COUNT(DISTINCT x)."""
    ORDER = "order"
    """The direction of one ORDER BY term."""
    LIMIT = "limit"
    """One row more, or no LIMIT."""
    CONDITION = "condition"
    """One condition dropped."""
    CONNECTIVE = "connective"
    """AND and OR."""
    LITERAL = "literal"
    """A number, a year or a LIKE pattern."""


@dataclass(frozen=True)
class Change:
    """A change: the place in the query's tree, and what to do there to a copy of it.

    ``text`` says it in words. ``neutral`` says why it cannot alter the result as a set of rows,
    whatever the tables hold; empty where it can.
    """

    kind: Kind
    place: exp.Expr
    edit: Callable[[exp.Expr], object]
    text: str
    neutral: str = ""


def replacement(kind: Kind, place: exp.Expr, new: exp.Expr, neutral: str = "") -> Change:
    """Return the change that puts ``new`` into a place."""
    text = f"{shown(place)} -> {shown(new)}"
    return Change(kind, place, lambda node: node.replace(new.copy()), text, neutral)


def shown(node: exp.Expr) -> str:
    """Return a part of a query as SQL."""
    return node.sql(dialect=DIALECT)
