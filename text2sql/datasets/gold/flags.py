"""Flags: hints that a gold query's answer may not be determined by its data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from text2sql.sandbox import QueryResult, Status

Row = tuple[Any, ...]


class Flag(StrEnum):
    """What may be wrong with a gold query."""

    LIMIT_CUTS_TIE = "limit_cuts_tie"
    """A LIMIT or a window separates different rows that sort alike."""
    LIMIT_WITHOUT_ORDER = "limit_without_order"
    """There are more rows than the LIMIT takes, and no ORDER BY."""
    NULL_SORTS_FIRST = "null_sorts_first"
    """The LIMIT takes a row because its sort key is NULL."""
    TEXT_SORTED_AS_NUMBER = "text_sorted_as_number"
    """ORDER BY, MIN or MAX compares numbers stored as text, and as numbers other rows come first;
    or a text sorts before the numbers of its column."""
    UNKNOWN_CAST_TYPE = "unknown_cast_type"
    """A cast names a type that SQLite does not know and takes for another."""
    BARE_COLUMN = "bare_column"
    """A column is neither grouped nor aggregated, and has several values to choose from."""
    CONCAT_WITHOUT_ORDER = "concat_without_order"
    """GROUP_CONCAT or JSON_GROUP_ARRAY joins several values in no particular order."""
    ASKS_OUTSIDE = "asks_outside"
    """The query asks the clock, the time zone or chance: its answer changes by itself."""
    UNCHECKED = "unchecked"
    """The query's LIMIT or window could not be checked; the detail says why."""


SENTENCES = {
    Flag.LIMIT_CUTS_TIE: "no LIMIT and no window cuts through rows that sort alike",
    Flag.LIMIT_WITHOUT_ORDER: "every LIMIT that leaves rows out has an ORDER BY",
    Flag.NULL_SORTS_FIRST: "no LIMIT takes a row because its sort key is NULL",
    Flag.TEXT_SORTED_AS_NUMBER: "no numbers are sorted as text where that changes the answer",
    Flag.UNKNOWN_CAST_TYPE: "every cast names a type that SQLite knows",
    Flag.BARE_COLUMN: "every column beside an aggregate has one value in its group",
    Flag.CONCAT_WITHOUT_ORDER: "no values are joined in an order left to chance",
    Flag.ASKS_OUTSIDE: "no gold query asks the clock, the time zone or chance",
    Flag.UNCHECKED: "every LIMIT and window could be checked",
}
"""What is true of queries without the flag."""

Finding = tuple[Flag, str]
"""A flag, and what was found, in words."""


@dataclass(frozen=True)
class GoldFlag:
    """One flag of one question's gold query, and what was found, in words."""

    key: str
    flag: Flag
    detail: str


def rows_of(result: QueryResult) -> list[Row]:
    """Return the rows of a probe that ran without warnings, else none."""
    return list(result.rows) if result.status is Status.OK and not result.warnings else []


def show(row: Row) -> str:
    """Return a row as text for people, shortened."""
    text = ", ".join("NULL" if value is None else repr(value) for value in row)
    return f"({text[:80]}…)" if len(text) > 80 else f"({text})"
