"""The statements in an SQL text, and which of them would change anything.

Decided by SQLite's own tokens, never by how the text starts: comments, quotes, several statements,
common table expressions and NUL bytes do not hide a verb.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from text2sql.sandbox.sql.tokens import Token, tokens_of
from text2sql.sandbox.sql.write_forms import EXPLAINED, form_of

_SPACES = " \t\n\f\r"
_ENDS, _CHANGING = (";", "\x00"), ("into", "insert", "update", "delete")
_LOOKED_INTO = re.compile(rf"[;\x00]|\b(?:{'|'.join(_CHANGING)})\b", re.IGNORECASE)
"""What may be another statement or a change in a text that begins with SELECT."""

_REMEMBERED_CHARS = 10_000
_NOTHING_MORE = re.compile(r"(?>[ \t\n\f\r]|--[^\n]*|/\*.*?(?:\*/|\Z))*+\Z", re.DOTALL)
"""Spaces and comments, as Python's sqlite3 reads them."""

_TRIGGER = re.compile(r"CREATE (?:TEMP(?:ORARY)? )?TRIGGER(?: |\Z)", re.IGNORECASE | re.ASCII)
_AFTER_WITH = ("SELECT", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE")
BIRD_SEPARATOR = "\t----- bird -----\t"
_SUFFIX = re.compile(BIRD_SEPARATOR + r"[^\t\r\n'\"`;]*+\s*+")
_FENCED = re.compile(r"(?si)```[ \t]*(?:(?:sqlite3?|[a-z]*sql)\b)?(.*?)(?:```|\Z)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WRITE_VERBS = _words(
    "INSERT UPDATE DELETE REPLACE CREATE DROP ALTER REINDEX VACUUM ANALYZE ATTACH DETACH "
    "BEGIN COMMIT END ROLLBACK SAVEPOINT RELEASE"
)
"""Statements that change data, schema, files, statistics or the connection's state."""

_READ_PRAGMAS = _words(
    "collation_list compile_options database_list foreign_key_check foreign_key_list "
    "function_list index_info index_list index_xinfo integrity_check module_list pragma_list "
    "quick_check table_info table_list table_xinfo"
)
"""PRAGMAs that only read, with or without an argument."""

_QUERY_PRAGMAS = _READ_PRAGMAS | _words(
    "application_id auto_vacuum cache_size data_version encoding foreign_keys freelist_count "
    "journal_mode page_count page_size schema_version synchronous user_version"
)
"""PRAGMAs that only read while they have no argument."""


@dataclass(frozen=True)
class Statement:
    """One statement: its main verb in capitals, its text, and whether it is a write.

    ``formed``: it has the form of a write in SQLite's or another dialect's grammar; a sentence that
    only begins with a verb (Update: ...) does not.
    """

    verb: str
    text: str
    writes: bool
    formed: bool = False


def classify(sql: str) -> list[Statement]:
    """Return the statements of a text in order, without comments and empty statements.

    ``writes`` follows from the verb as SQLite would read it; the rest of the statement's grammar is
    not checked. Takes time in proportion to the length of the text.
    """
    plain = sql.strip(_SPACES).removesuffix(";").rstrip(_SPACES)
    if plain[:6].upper() == "SELECT" and plain[6:7] in _SPACES:
        folded = plain.lower()  # most lack the words, and a substring search is fast
        hints = any(hint in folded for hint in (*_ENDS, *_CHANGING))
        if not (hints and _LOOKED_INTO.search(plain)):
            return [Statement("SELECT", plain, False)]  # quotes and comments do not matter
    return list(_remembered(sql) if len(sql) <= _REMEMBERED_CHARS else _statements(sql))


def _statements(sql: str) -> tuple[Statement, ...]:
    return tuple(_statement(sql, tokens) for tokens in _split(sql))


_remembered = lru_cache(maxsize=1024)(_statements)


def goes_on(sql: str, only: Statement) -> bool:
    """Whether something follows the ``;`` of a text's only statement.

    That is an error in Python's sqlite3, and so in the official evaluator; a ``;`` before the
    statement is not.
    """
    if sql.count(";") <= sql.rstrip(_SPACES).endswith(";"):
        return False
    start = next(token.start for token in tokens_of(sql) if token.text != ";")
    end = start + len(only.text)
    mark = next((token.end for token in tokens_of(sql[end:]) if token.text == ";"), None)
    return mark is not None and _NOTHING_MORE.match(sql, end + mark) is None


def _split(sql: str) -> Iterator[list[Token]]:
    """Group the tokens by statement; a NUL byte ends a statement as ``;`` does."""
    current: list[Token] = []
    in_body = False
    for token in tokens_of(sql):
        # A trigger's body ends with "; END", as in SQLite's own splitter.
        if (
            token.text == ";" and in_body
            and not (current[-1].is_word("END") and current[-2].text == ";")
        ):  # fmt: skip
            current.append(token)
        elif token.text in (";", "\x00"):
            if current:
                yield current
            current, in_body = [], False
        else:
            current.append(token)
            in_body = in_body or (token.is_word("BEGIN") and _creates_trigger(current))
    if current:
        yield current


def _creates_trigger(tokens: list[Token]) -> bool:
    """Whether a statement, explained or not, creates a trigger: its body has its own ``;``."""
    start = tokens[:3]
    if tokens[0].is_word("EXPLAIN"):
        start = tokens[3:6] if tokens[1].is_word("QUERY") else tokens[1:4]
    return _TRIGGER.match(" ".join(token.text for token in start)) is not None


def _statement(sql: str, tokens: list[Token]) -> Statement:
    text = sql[tokens[0].start : tokens[-1].end]
    verb, rest = _verb(tokens)
    formed = form_of(tokens, len(tokens) - len(rest) - 1)
    if verb == "EXPLAIN" and formed != EXPLAINED:
        # SQLite executes some PRAGMAs while it compiles them, explained or not.
        explained = [t for t in tokens[1:] if not t.is_word("QUERY", "PLAN")]
        inner, rest = _verb(explained)
        writes = _writing_pragma(inner, rest)
        return Statement(verb, text, writes, writes and bool(form_of(explained, 0)))
    if verb == "PRAGMA":
        writes = _writing_pragma(verb, rest)
        return Statement(verb, text, writes, writes and bool(formed))
    if verb in _WRITE_VERBS:
        return Statement(verb, text, True, bool(formed))
    return Statement(formed or verb, text, bool(formed), bool(formed))


def _verb(tokens: list[Token]) -> tuple[str, list[Token]]:
    """Return the main verb and the tokens after it."""
    if not tokens:
        return "", []
    at = _after_with(tokens) if tokens[0].is_word("WITH") else 0
    first = tokens[at]
    return (first.text.upper() if first.kind == "word" else first.text), tokens[at + 1 :]


def _after_with(tokens: list[Token]) -> int:
    """Find the main verb after ``WITH a AS (...), b AS (...)``; 0 without one."""
    depth = 0
    for at, token in enumerate(tokens):
        closed = at > 0 and depth == 0 and tokens[at - 1].text == ")"
        if closed and token.is_word(*_AFTER_WITH):
            return at
        depth += {"(": 1, ")": -1}.get(token.text, 0)
    return 0


def _writing_pragma(verb: str, rest: list[Token]) -> bool:
    """Whether ``PRAGMA [schema.]name [= value | (value)]`` is anything but a known read."""
    if verb != "PRAGMA":
        return False
    if len(rest) > 1 and rest[1].text == ".":
        rest = rest[2:]
    if not rest:
        return False
    return not pragma_reads(rest[0].text.strip("\"'`[]"), has_argument=len(rest) > 1)


def pragma_reads(name: str, has_argument: bool) -> bool:
    """Whether a PRAGMA is on the list of those that only read."""
    return name.lower() in (_READ_PRAGMAS if has_argument else _QUERY_PRAGMAS)


def cut_suffix(text: object) -> str:
    """Return the SQL of an entry in a predictions file: without BIRD's suffixes, else as it is.

    The official evaluator, too, runs fences and prose. Anything but a string is empty.
    """
    if not isinstance(text, str):
        return ""
    end = len(text)
    while (at := text.rfind(BIRD_SEPARATOR, 0, end)) >= 0 and _SUFFIX.fullmatch(text, at, end):
        end = at
    return text[:end].strip(" \t\r\n\f")


def clean_sql(text: object) -> str:
    """Return the SQL in a model's text, without BIRD's suffix and out of its fenced block.

    Anything but a string is empty. Prose around the block is dropped unless it contains something
    with the form of a write. Two blocks stay as they are, and fail as SQL; one may lack its closing
    or opening fence.
    """
    sql = cut_suffix(text)
    marks = sql.count("```")
    if marks == 1 and sql.endswith("\n```"):
        return sql.removesuffix("```").rstrip()
    fenced = marks == 2 or (marks == 1 and sql.startswith("```"))
    blocks = _FENCED.findall(sql) if fenced else []
    if len(blocks) != 1:
        return sql
    around = _FENCED.split(sql)[::2]  # an apostrophe before the block hides nothing after it
    read = (" ; ".join(around), *around)
    return sql if any(s.formed for text in read for s in classify(text)) else blocks[0].strip()
