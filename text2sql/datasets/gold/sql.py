"""Reading gold queries: syntax trees that keep casts as written, cast types, numbers in text."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError
from sqlglot.generators.sqlite import SQLiteGenerator

from text2sql.sandbox.sql.statements import classify
from text2sql.sandbox.sql.tokens import Token, tokens_of

PARSER_ERRORS = (SqlglotError, RecursionError, ValueError)
"""What ``parsed`` and ``written`` raise for queries that sqlglot cannot follow."""

MARKS = ("$", "€", "£", "%", ",")
"""Characters around a number, and between its thousands."""

_NUMBER = re.compile(
    r"\s*[$€£]?\s*[+-]?[$€£]?(\d{1,3}(,\d{3})+(\.\d*)?|\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*%?\s*\Z"
)
_DROPPED = re.compile(rf"[\s{re.escape(''.join(MARKS))}]")

_TYPES = (
    "INT INTEGER TINYINT SMALLINT MEDIUMINT BIGINT INT2 INT8 REAL DOUBLE FLOAT NUMERIC DECIMAL "
    "TEXT CHAR CHARACTER VARCHAR NCHAR NVARCHAR CLOB BLOB"
)
KNOWN_TYPES = frozenset(_TYPES.split())
"""Types that SQLite takes for what people mean; more words may follow, as in DOUBLE PRECISION."""

_AFFINITIES = (
    ("INTEGER", ("INT",)),
    ("TEXT", ("CHAR", "CLOB", "TEXT")),
    ("BLOB", ("BLOB",)),
    ("REAL", ("REAL", "FLOA", "DOUB")),
)
"""SQLite's rule, from its documentation: "Determination of Column Affinity"."""


class AsWritten(SQLite):
    """SQLite's dialect that writes the types of casts unchanged: DECIMAL is not REAL."""

    class Generator(SQLiteGenerator):
        """What writes SQL, without SQLite's replacements for names of types."""

        TYPE_MAPPING: ClassVar[dict[Any, str]] = {}


def parsed(sql: str) -> exp.Expr:
    """Return a query's tree, without a comment after its ``;``; or raise one of PARSER_ERRORS."""
    statements = classify(sql)
    return parse_one(statements[0].text if len(statements) == 1 else sql, dialect=AsWritten)


def projections(sql: str) -> list[exp.Expr]:
    """Return the trees of expressions; REPLACE would begin a statement, but for the SELECT."""
    return [one.copy() for one in parse_one(f"SELECT {sql}", dialect=AsWritten).expressions]


def written(node: exp.Expr) -> str:
    """Return a tree as SQL; raise if SQLite cannot express it."""
    return node.sql(AsWritten, comments=False, unsupported_level=ErrorLevel.RAISE)


def number_in(value: Any) -> float | None:
    """Return the number in a text such as $9.50, 12,000 or 7 %; None for anything else."""
    if not isinstance(value, str) or not _NUMBER.match(value):
        return None
    return float(_DROPPED.sub("", value))


def without_marks(value: str) -> str:
    """Return SQL that removes the marks around a number from an expression's text."""
    for mark in MARKS:
        value = f"REPLACE({value}, '{mark}', '')"
    return value


def unknown_casts(sql: str) -> list[str]:
    """Return a sentence for each distinct cast to a type that SQLite does not know, in order.

    ``CAST(x AS DATETIME)`` and ``CAST(x AS REL)`` raise nothing: SQLite guesses from the name's
    letters and makes x a number, often an integer, so that a division loses its fraction.
    Read from tokens, since a parser changes the name that SQLite looks at.
    """
    tokens = list(tokens_of(sql))
    names = [
        _type_name(tokens[at + 1 :])
        for at, token in enumerate(tokens[:-1])
        if token.is_word("CAST") and tokens[at + 1].text == "("
    ]
    unknown = [name for name in names if name and name.split()[0] not in KNOWN_TYPES]
    return [f"{name} is {affinity(name)} to SQLite" for name in dict.fromkeys(unknown)]


def affinity(name: str) -> str:
    """Return the affinity that SQLite derives from a type's name."""
    upper = name.upper()
    found = (kind for kind, parts in _AFFINITIES if any(part in upper for part in parts))
    return next(found, "NUMERIC")


def _type_name(tokens: list[Token]) -> str:
    """Return the words after a cast's own AS, up to a size in parentheses, in capitals."""
    depth, words, inside = 0, [], False
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 or (inside and depth > 1):
            break
        if inside:
            words.append(token.text.strip("\"'`[]").upper())
        inside = inside or (depth == 1 and token.is_word("AS"))
    return " ".join(words)
