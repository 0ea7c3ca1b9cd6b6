"""Misspelt columns in double quotes, which SQLite takes for text without a word."""

from __future__ import annotations

import sqlite3
from time import monotonic

from text2sql.sandbox.connection import Database
from text2sql.sandbox.tokens import tokens_of

_CHECKED_NAMES = 50
_CHECKING_SECONDS = 0.2


def misspelt(statement: str, database: Database) -> list[str]:
    """Return the double-quoted names that SQLite, knowing no such column, took for text.

    Each is written with backticks, which SQLite never takes for text, and compiled; statements
    that take long to compile are looked into only for a moment.
    """
    until = monotonic() + _CHECKING_SECONDS
    quoted = [t for t in tokens_of(statement) if t.kind == "quoted" and t.text[0] == '"']
    suspects: list[str] = []
    for token in quoted[:_CHECKED_NAMES]:
        name = token.text[1:-1].replace('""', '"')
        if not name or name in suspects:
            continue
        if monotonic() > until:
            break
        tick = "`" + name.replace("`", "``") + "`"
        text = f"EXPLAIN {statement[: token.start]}{tick}{statement[token.end :]}"
        if f"no such column: {name}" == _compile(text, database):
            suspects.append(name)
    return suspects


def _compile(text: str, database: Database) -> str:
    try:
        database.handle.execute(text).close()
    except sqlite3.Error as error:
        return str(error)
    return ""
