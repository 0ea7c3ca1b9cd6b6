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
    return not any(map(_is_volatile, tokens)) and not _asks_the_clock(tokens)


def _is_volatile(token: Token) -> bool:
    name = _name(token.text)
    if token.kind in ("string", "quoted") and name in _SURROUNDINGS:
        return True
    return name in _VOLATILE or name.startswith("PRAGMA_")


def _name(text: str) -> str:
    return text.strip("\"'`[]").upper()


def _asks_the_clock(tokens: list[Token]) -> bool:
    """Whether a function has too few arguments for one that knows the time from them."""
    lacking: list[int] = []  # how many arguments, for each open parenthesis
    before = ""
    for token in tokens:
        if lacking and token.text == ")":
            if lacking.pop() > 0:
                return True
        elif lacking and (before == "(" or token.text == ","):
            lacking[-1] -= 1
        if token.text == "(":
            lacking.append(_CLOCK.get(_name(before), 0))
        before = token.text
    return False
