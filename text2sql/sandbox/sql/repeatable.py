"""Whether a query returns the same result again while its database stays the same."""

from __future__ import annotations

from itertools import pairwise

from text2sql.sandbox.sql.tokens import Token, tokens_of

_HINTS = ("random", "current_", "pragma", "date", "time", "julianday", "unixepoch")
_VOLATILE = ("RANDOM", "RANDOMBLOB", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP")
_CLOCK = {"DATE": 1, "TIME": 1, "DATETIME": 1, "JULIANDAY": 1, "UNIXEPOCH": 1, "STRFTIME": 2}
"""Functions that use the current time when they get fewer arguments than this."""

_LONGEST = 10_000  # characters that are looked into; BIRD's longest query has about 2,000
_SURROUNDINGS = ("NOW", "LOCALTIME", "UTC", "SUBSEC", "SUBSECOND")
"""Arguments that mean the clock or the time zone to these functions."""

_KEEPERS = """
ABS AVG CAST COALESCE COUNT CUME_DIST DENSE_RANK FIRST_VALUE IFNULL IIF INSTR LAG LAST_VALUE LEAD
LENGTH MAX MIN NTH_VALUE NTILE NULLIF PERCENT_RANK RANK ROUND ROW_NUMBER SUM TIMEDIFF TOTAL TYPEOF
ALL AND AS BETWEEN BY CASE DISTINCT ELSE EXCEPT EXISTS FILTER FROM HAVING IN INTERSECT IS JOIN
LIKE LIMIT NOT OFFSET ON OR OVER SELECT THEN UNION USING VALUES WHEN WHERE
"""
"""What may stand before a parenthesis: keywords, and functions that do not build text."""

_KEPT = frozenset(_KEEPERS.split()) | _CLOCK.keys()
_MAKERS = ("||", "->")


def is_repeatable(sql: str) -> bool:
    """Whether nothing in a query depends on chance, the clock, the time zone or the file's path.

    Errs towards no: beside a function of date or time nothing may build text, which could be
    ``now``. Views and cells that a statement reads are not examined.
    """
    if not _is_hinted(sql):
        return True
    if len(sql) > _LONGEST or asks_outside(sql):
        return False
    tokens = list(tokens_of(sql))
    # PRAGMAs read settings of the connection, such as the file's path.
    if any((_name(token.text) + "_").startswith("PRAGMA_") for token in tokens):
        return False
    called = {_name(a.text) for a, b in pairwise(tokens) if b.text == "(" and a.kind != "symbol"}
    return called.isdisjoint(_CLOCK) or (called <= _KEPT and not _makes_text(tokens))


def _is_hinted(sql: str) -> bool:
    folded = sql.lower()
    return any(hint in folded for hint in _HINTS)


def asks_outside(sql: str) -> bool:
    """Whether a query asks for chance, the clock or the time zone outright."""
    if not _is_hinted(sql):
        return False
    tokens = list(tokens_of(sql))
    names = {_name(token.text) for token in tokens}
    quoted = {_name(token.text) for token in tokens if token.kind in ("string", "quoted")}
    volatile = not (names.isdisjoint(_VOLATILE) and quoted.isdisjoint(_SURROUNDINGS))
    return volatile or _asks_the_clock(tokens)


def _makes_text(tokens: list[Token]) -> bool:
    """Whether an operator builds text, or a blob literal could be text."""
    return any(
        a.end == b.start and (a.text + b.text in _MAKERS or (a.is_word("X") and b.kind == "string"))
        for a, b in pairwise(tokens)
    )


def _name(text: str) -> str:
    return text.strip("\"'`[]").upper()


def _asks_the_clock(tokens: list[Token]) -> bool:
    """Whether a function lacks the argument that would tell it the time."""
    lacking: list[int] = []  # missing arguments, for each open parenthesis
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
