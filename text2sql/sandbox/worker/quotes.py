"""Warnings of wrong quotes: SQLite silently takes a name for text that was meant as a column."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from time import monotonic

from text2sql.sandbox.sql.tokens import Token, tokens_of
from text2sql.sandbox.worker.connection import Database

_CHECKED_NAMES = 50
_CHECKING_SECONDS = 0.2
_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "TOTAL")


def quoting_warnings(statement: str, database: Database) -> list[str]:
    """Return a sentence for each quoted name that SQLite took for text and may be a column.

    In double quotes it is one that is not a column; in single quotes one that is, where a query
    rarely has a text: alone after SELECT or BY, or in an aggregate. Each is compiled in backticks,
    which SQLite never takes for text; statements that compile slowly are checked only briefly.
    """
    until = monotonic() + _CHECKING_SECONDS
    found: dict[str, str] = {}
    tokens = list(tokens_of(statement))
    double = [token for token in tokens if token.kind == "quoted" and token.text[0] == '"']
    single = [token for at, token in enumerate(tokens) if _is_odd_text(tokens, at)]
    for token in (*double[:_CHECKED_NAMES], *single[:_CHECKED_NAMES]):
        if monotonic() > until:
            break
        quote = token.text[0]
        name = token.text[1:-1].replace(quote * 2, quote)
        if not name or token.text in found:
            continue
        tick = "`" + name.replace("`", "``") + "`"
        text = f"EXPLAIN {statement[: token.start]}{tick}{statement[token.end :]}"
        try:
            database.handle.execute(text).close()
            complaint = ""
        except sqlite3.Error as error:
            complaint = str(error)
        if quote == '"' and complaint == f"no such column: {name}":
            found[token.text] = f'"{name}" is not a column; SQLite read it as text'
        elif quote == "'" and not complaint:
            found[token.text] = f"'{name}' is a text; without the quotes it is a column"
    return list(found.values())


def _is_odd_text(tokens: Sequence[Token], at: int) -> bool:
    """Whether a text stands where a column is expected."""
    if tokens[at].kind != "string" or at == 0:
        return False
    before = tokens[max(0, at - 2) : at]
    aggregated = before[-1].text == "(" and before[0].is_word(*_AGGREGATES)
    behind = tokens[at + 1] if at + 1 < len(tokens) else None
    alone = behind is None or behind.text in (",", ")", ";") or behind.kind == "word"
    return alone and (aggregated or before[-1].is_word("SELECT", "DISTINCT", "BY"))
