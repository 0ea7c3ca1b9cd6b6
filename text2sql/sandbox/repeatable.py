"""Whether a text gives the same result again as long as the database stays the same."""

from __future__ import annotations

import re

from text2sql.sandbox.statements import Token, tokens_of

_HINT = re.compile("random|current_|pragma|date|time|julianday|unixepoch", re.IGNORECASE)
_VOLATILE = ("RANDOM", "RANDOMBLOB", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "PRAGMA")
_CLOCK = {"DATE": 1, "TIME": 1, "DATETIME": 1, "JULIANDAY": 1, "UNIXEPOCH": 1, "STRFTIME": 2}
"""Functions that tell the time when they get fewer arguments than this."""

_LONGEST = 10_000  # characters that are looked into; BIRD's longest query has about 2,000
_SURROUNDINGS = ("NOW", "LOCALTIME", "UTC")
"""Texts that mean the clock or the time zone to these functions."""


def is_repeatable(sql: str) -> bool:
    """Whether nothing in a text names chance, the clock, the time zone or the file's path.

    Errs towards no. Views that a statement reads are not looked into.
    """
    if not _HINT.search(sql):
        return True
    if len(sql) > _LONGEST:
        return False
    tokens = list(tokens_of(sql))
    return not any(_is_volatile(tokens, at) for at in range(len(tokens)))


def _is_volatile(tokens: list[Token], at: int) -> bool:
    token = tokens[at]
    name = token.text.strip("\"'`[]").upper()
    if token.kind in ("string", "quoted") and name in _SURROUNDINGS:
        return True
    if name in _VOLATILE or name.startswith("PRAGMA_"):
        return True
    called = at + 1 < len(tokens) and tokens[at + 1].text == "("
    return called and name in _CLOCK and _arguments(tokens[at + 1 :]) < _CLOCK[name]


def _arguments(tokens: list[Token]) -> int:
    """Count the arguments of a call; ``tokens`` start with its parenthesis."""
    depth = commas = 0
    for position, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        commas += token.text == "," and depth == 1
        if depth == 0:
            return commas + 1 if position > 1 else 0
    return 0
