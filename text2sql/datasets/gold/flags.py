"""Flags: hints that a gold query's answer may not be determined by its data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from text2sql.sandbox import QueryResult, Status

Row = tuple[Any, ...]


class Flag(StrEnum):
    """What may be wrong with a gold query; ``SENTENCES`` says it of each."""

    LIMIT_CUTS_TIE = "limit_cuts_tie"
    LIMIT_WITHOUT_ORDER = "limit_without_order"
    NULL_SORTS_FIRST = "null_sorts_first"
    TEXT_SORTED_AS_NUMBER = "text_sorted_as_number"  # or a text that sorts before numbers
    UNKNOWN_CAST_TYPE = "unknown_cast_type"
    BARE_COLUMN = "bare_column"
    CONCAT_WITHOUT_ORDER = "concat_without_order"
    COUNTS_EVERY_ROW = "counts_every_row"
    ASKS_OUTSIDE = "asks_outside"
    UNCHECKED = "unchecked"  # the detail says why


SENTENCES = {
    Flag.LIMIT_CUTS_TIE: "no LIMIT and no window cuts through rows that sort alike",
    Flag.LIMIT_WITHOUT_ORDER: "every LIMIT that leaves rows out has an ORDER BY",
    Flag.NULL_SORTS_FIRST: "no LIMIT takes a row because its sort key is NULL",
    Flag.TEXT_SORTED_AS_NUMBER: "no numbers are sorted as text where that changes the answer",
    Flag.UNKNOWN_CAST_TYPE: "every cast names a type that SQLite knows",
    Flag.BARE_COLUMN: "every column beside an aggregate has one value in its group",
    Flag.CONCAT_WITHOUT_ORDER: "no values are joined in an order left to chance",
    Flag.COUNTS_EVERY_ROW: "every COUNT of a condition can leave rows out",
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
