"""What a write looks like, in SQLite's grammar or another dialect's.

A statement for another database (``TRUNCATE TABLE t``) is a write attempt although SQLite cannot
read it; a sentence that begins with the same verb (``Truncate the names``) is none. The forms are
matched with tokens, so that nothing in a comment, a text or a quoted name counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from text2sql.sandbox.sql.tokens import Token
from text2sql.sandbox.sql.write_forms import FORMS, RESERVED

_OPERATORS = "AS DISTINCT ALL CASE WHEN THEN ELSE END AND OR NOT NULL IS IN LIKE BETWEEN EXISTS"
_IN_EXPRESSIONS = tuple(_OPERATORS.split())

EXPLAINED = "EXPLAIN ANALYZE"
"""The form of an explained write that PostgreSQL carries out while it explains."""

_NESTED = ("INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE")
_MOST_NESTED, _ANYTHING = 100, 1_000  # how many are looked into, how many tokens ... stands for
_QUERIES = ("SELECT", "WITH", "VALUES", "(")


def form_of(tokens: Sequence[Token], at: int) -> str:
    """Name the write whose form a statement has; nothing where it has none.

    ``at`` is the place of its main verb.
    """
    verb = tokens[at].text.upper()
    if tokens[at].kind == "word" and _is_write(tokens, at):
        return verb
    if verb == "SELECT" and _selects_into(tokens, at + 1):
        return "SELECT INTO"
    if verb == "EXPLAIN":
        return _explained(tokens, at + 1)
    return _nested_write(tokens) if tokens[0].text.upper() in _QUERIES else ""


def _explained(tokens: Sequence[Token], at: int) -> str:
    words = [token.text.upper() for token in tokens[at : at + 2]]
    if words[:1] != ["ANALYZE"]:
        return ""
    return EXPLAINED if _is_write(tokens, at + 1 + (words[1:] == ["VERBOSE"])) else ""


def _is_write(tokens: Sequence[Token], at: int) -> bool:
    if at >= len(tokens):
        return False
    forms = FORMS.get(tokens[at].text.upper(), ())
    return any(_matches(form, tokens, at + 1) for form in forms)


def _nested_write(tokens: Sequence[Token]) -> str:
    """Find a change in parentheses, as in ``WITH d AS (DELETE ... RETURNING *)``."""
    pairs = enumerate(pairwise(tokens), 1)
    inside = (at for at, (a, b) in pairs if a.text == "(" and b.is_word(*_NESTED))
    for at in islice(inside, _MOST_NESTED):
        if _is_write(tokens, at):
            return tokens[at].text.upper()
    return ""


def _selects_into(tokens: Sequence[Token], at: int) -> bool:
    """Whether a SELECT puts its rows into a table, a file or a variable.

    A name goes before FROM, or ends a statement without one; a file or @variable may end any.
    """
    depth, found, prose = 0, False, False
    for place in range(at, len(tokens)):
        token = tokens[place]
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.is_word("FROM"):
            found = True
        if depth == 0 and token.is_word("INTO"):
            named = _matches(_INTO_FROM, tokens, place + 1)
            alone = not found and not prose and _matches(_INTO_END, tokens, place + 1)
            return (named and not found) or alone or _matches(_INTO_FILE, tokens, place + 1)
        prose = prose or (place > at and _is_plain(token) and _is_plain(tokens[place - 1]))
    return False


def _is_plain(token: Token) -> bool:
    return token.kind == "word" and not token.is_word(*_IN_EXPRESSIONS)


_INTO_FROM = ("TEMP|TEMPORARY|UNLOGGED?", "TABLE?", "<name>", "FROM")
_INTO_END = ("TEMP|TEMPORARY|UNLOGGED?", "TABLE?", "<name>", "$")
_INTO_FILE = ("OUTFILE|DUMPFILE|<variable>", "<string>|$|,|FROM")


def _matches(form: Sequence[str], tokens: Sequence[Token], at: int) -> bool:
    """Whether tokens follow a form of ``write_forms``. Never goes back."""
    anything = 0
    for part in form:
        if part == "...":
            anything = _ANYTHING
            continue
        after = _after(part.removesuffix("?"), tokens, at)
        while anything and after < 0 and at < len(tokens):
            at, anything = at + 1, anything - 1
            after = _after(part, tokens, at)
        anything = 0
        if after >= 0:
            at = after
        elif not part.endswith("?"):
            return False
    return True


def _after(part: str, tokens: Sequence[Token], at: int) -> int:
    """Return the place after one part of a form; -1 where something else stands there."""
    for choice in part.split("|"):
        if choice == "$" and (at >= len(tokens) or tokens[at].text == ")"):
            return at
        if at < len(tokens) and _is(choice, tokens[at]):
            return _after_name(tokens, at) if choice == "<name>" else at + 1
    return -1


def _is(choice: str, token: Token) -> bool:
    if choice == "<name>":
        named = token.kind in ("quoted", "string", "variable")
        return named or (token.kind == "word" and token.text.upper() not in RESERVED)
    if choice == "<any>":
        return True
    if choice.startswith("<"):
        return token.kind == choice[1:-1]
    return token.is_word(choice) or (token.kind == "symbol" and token.text == choice)


def _after_name(tokens: Sequence[Token], at: int) -> int:
    """Return the place after a name, which may have its schema before it."""
    while at + 2 < len(tokens) and tokens[at + 1].text == "." and _is("<name>", tokens[at + 2]):
        at += 2
    return at + 1
