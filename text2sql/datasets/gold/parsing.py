"""Gold queries as trees: SQLite's dialect as it is written, read and written back."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.dialects.sqlite import SQLite
from sqlglot.generators.sqlite import SQLiteGenerator

from text2sql.sandbox.sql.statements import classify


class _Generator(SQLiteGenerator):
    """Writes the names of types as they are: DECIMAL is not REAL."""

    TYPE_MAPPING: ClassVar[dict[Any, str]] = {}


class AsWritten(SQLite):
    """SQLite's dialect that keeps the types of casts."""

    Generator = _Generator


def parsed(sql: str) -> exp.Expr:
    """Return the tree of a query, without a comment behind its ``;``, which would be a node.

    Raises sqlglot's errors, RecursionError or ValueError where it cannot be read.
    """
    statements = classify(sql)
    return parse_one(statements[0].text if len(statements) == 1 else sql, dialect=AsWritten)


def expression(sql: str) -> exp.Expr:
    """Return the tree of an expression; one that begins with REPLACE alone would be a statement."""
    found = parse_one(f"SELECT {sql}", dialect=AsWritten).expressions[0]
    assert isinstance(found, exp.Expr)
    return found.pop()


def written(node: exp.Expr) -> str:
    """Return a tree as SQL; raises where SQLite has no such thing."""
    return node.sql(AsWritten, comments=False, unsupported_level=ErrorLevel.RAISE)
