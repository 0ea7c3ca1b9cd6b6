"""Casts in a gold query to types that SQLite does not know: it guesses from the name's letters.

``CAST(x AS DATETIME)`` and ``CAST(x AS REL)`` raise nothing: they make a number of x, an integer
where it is one, and the division after them drops its fraction. The rule is that of SQLite's
documentation, "Determination of Column Affinity". Read from the tokens, since what a parser makes
of a type's name is no longer the name that SQLite looks at.
"""

from __future__ import annotations

from text2sql.sandbox.sql.tokens import Token, tokens_of

_NAMES = (
    "INT INTEGER TINYINT SMALLINT MEDIUMINT BIGINT INT2 INT8 REAL DOUBLE FLOAT NUMERIC DECIMAL "
    "TEXT CHAR CHARACTER VARCHAR NCHAR NVARCHAR CLOB BLOB"
)
KNOWN_TYPES = frozenset(_NAMES.split())
"""Names that mean to SQLite what they mean to people; more words may follow: DOUBLE PRECISION."""

_AFFINITIES = (
    ("INTEGER", ("INT",)),
    ("TEXT", ("CHAR", "CLOB", "TEXT")),
    ("BLOB", ("BLOB",)),
    ("REAL", ("REAL", "FLOA", "DOUB")),
)


def unknown_casts(sql: str) -> list[str]:
    """Return a sentence for each distinct cast to an unknown type, in order."""
    tokens = list(tokens_of(sql))
    names = [_type_name(tokens, at) for at in range(len(tokens)) if _is_cast(tokens, at)]
    unknown = [name for name in names if name and name.split()[0] not in KNOWN_TYPES]
    return [f"{name} is {affinity(name)} to SQLite" for name in dict.fromkeys(unknown)]


def affinity(name: str) -> str:
    """Return what SQLite takes a type's name for."""
    upper = name.upper()
    for kind, parts in _AFFINITIES:
        if any(part in upper for part in parts):
            return kind
    return "NUMERIC"


def _is_cast(tokens: list[Token], at: int) -> bool:
    return tokens[at].is_word("CAST") and at + 1 < len(tokens) and tokens[at + 1].text == "("


def _type_name(tokens: list[Token], at: int) -> str:
    """Return the words after the cast's own AS, up to a size in parentheses, in capitals."""
    depth, words, inside = 0, [], False
    for token in tokens[at + 1 :]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 or (inside and depth > 1):
            break
        if inside:
            words.append(token.text.strip("\"'`[]").upper())
        inside = inside or (depth == 1 and token.is_word("AS"))
    return " ".join(words)
