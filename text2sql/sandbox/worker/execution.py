"""Running one text on one database: refuse, or read and digest. Runs inside a worker."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple

from text2sql.sandbox.channel import RUNNING, WRITING, WorkerState
from text2sql.sandbox.limits import MAX_VALUE_BYTES, MESSAGE_CHARS
from text2sql.sandbox.results import QueryResult, ResultDigest, Status, refused, timeout_message
from text2sql.sandbox.sql.statements import Statement, classify, goes_on
from text2sql.sandbox.sql.tokens import Token, tokens_of
from text2sql.sandbox.worker.databases import DAMAGED, Database, DatabaseCache, Replacing

_ATTEMPTS = 3
_BROKEN_OFF = re.compile(r"""incomplete input\Z|unrecognized token: "['"`\[]""")
"""SQLite's errors for a statement that ends too early, which no dialect accepts."""

_NAMES_CHARS = 100_000  # 2,000 columns may have one name of 100 kB
_LARGE_ROW = 1_000_000  # bytes
_MOST_AT_ONCE, _BYTES_AT_ONCE = 1_000, 1_000_000  # rows, and bytes if all are like those read
_CHECKED_NAMES, _CHECKING_SECONDS = 50, 0.2
_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "TOTAL")
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_BROKEN_FILE = (
    *(*_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOTADB),
)
_NO_TABLE = "vtable constructor failed"
"""SQLite's error for one virtual table without its own tables; the rest can be read."""


class Job(NamedTuple):
    """One text to run; the fields are those of Limits and of Sandbox.execute."""

    path: str
    sql: str
    strict_text: bool
    seconds: float
    keep_rows: int
    max_rows: int
    max_bytes: int
    memory_mb: int
    cut: bool
    lock_seconds: float


def run_job(job: Job, databases: DatabaseCache, state: WorkerState) -> QueryResult:
    """Run one job; raises UnusableDatabase when the database cannot be read at all."""
    deadline = monotonic() + job.seconds
    try:
        statements = classify(job.sql)
        if not statements:
            return QueryResult(Status.NO_STATEMENT, error="there is no SQL statement to run")
        try:
            return _run_on_one_state(job, statements, databases, deadline, state)
        except MemoryError:  # cached databases and statements may have used it up
            databases.clear()
        return _run_on_one_state(job, statements, databases, deadline, state)
    except MemoryError:
        databases.clear()
        error = f"the query needed more than {job.memory_mb} MB of memory and was stopped"
        return QueryResult(Status.TOO_LARGE, error=error)
    except OSError as error:
        return QueryResult(Status.INFRASTRUCTURE, error=f"{job.path}: {error.strerror or error}")
    except sqlite3.Error as error:
        return _failed(job, error)
    except (UnicodeError, OverflowError) as error:
        text = f"the statement contains a character that SQLite cannot read: {error}"
        if isinstance(error, UnicodeDecodeError):
            text = "a column name is not valid UTF-8; name the result columns with AS"
        return QueryResult(Status.ERROR, error=text)


def lock_wait(job: Job) -> float:
    """Return how many seconds a query waits for the lock of another program."""
    return min(job.lock_seconds, job.seconds / 2)


def _run_on_one_state(
    job: Job,
    statements: list[Statement],
    databases: DatabaseCache,
    deadline: float,
    state: WorkerState,
) -> QueryResult:
    """Run a text, again if the file changed meanwhile: what was read may be inconsistent."""
    for _ in range(_ATTEMPTS):
        wait = lock_wait(job)
        database = databases.get(job.path, wait)
        database.deadline = deadline
        state.note(RUNNING)
        locked = not database.immutable
        try:
            refusal = _refusal(job.sql, statements, database, state)
            result = refusal or _read(job, statements[0], database)
        except sqlite3.Error as error:
            result = _failed(job, error)
        finally:
            databases.leave(job.path)
        if locked or result.status is Status.TIMEOUT or database.is_current():
            return result
    return QueryResult(Status.INFRASTRUCTURE, error=f"{job.path}: the file keeps changing")


def _refusal(
    sql: str, statements: list[Statement], database: Database, state: WorkerState
) -> QueryResult | None:
    """Say why a text is not run: it writes, is not SQL, or is more than one statement."""
    malformed = ""
    for statement in statements:
        if not statement.writes:
            continue
        explained = statement.verb == "EXPLAIN"
        text = statement.text if explained else f"EXPLAIN {statement.text}"
        state.note(WRITING)
        complaint = database.compile_error(text)
        if not complaint or (statement.formed and not _BROKEN_OFF.match(complaint)):
            return refused(statement.verb)
        malformed = malformed or complaint
    if malformed:
        error = malformed[:MESSAGE_CHARS]
    elif "\x00" in sql:
        error = "the statement contains a NUL byte"
    elif len(statements) > 1:
        error = f"one statement at a time: this text has {len(statements)}; send one SELECT"
    elif goes_on(sql, statements[0]):
        error = "one statement at a time: leave out what follows its ';'"
    else:
        return None
    return QueryResult(Status.ERROR, error=error)


def _read(job: Job, statement: Statement, database: Database) -> QueryResult:
    """Run one reading statement and read its rows; never leaves it open."""
    database.explaining = statement.verb == "EXPLAIN"
    replacing = Replacing()
    database.handle.text_factory = str if job.strict_text else replacing
    cursor = database.handle.cursor()
    try:
        cursor.execute(statement.text)
        names = [column[0] for column in cursor.description or ()]
        longest = _NAMES_CHARS // max(1, len(names))
        result = _take_in(cursor, tuple(name[:longest] for name in names), job)
    finally:
        cursor.close()
    if result.status is not Status.OK or job.strict_text:
        return result
    warnings = [replacing.warning()] if replacing.cells else []
    quoted = '"' in statement.text or "'" in statement.text
    # To compile it again might miss the deadline.
    if quoted and monotonic() <= database.deadline - job.seconds / 2:
        warnings += _quoting_warnings(statement.text, database)
    return replace(result, warnings=tuple(warnings)) if warnings else result


def _take_in(cursor: sqlite3.Cursor, columns: tuple[str, ...], job: Job) -> QueryResult:
    digest = ResultDigest()
    kept: list[tuple[Any, ...]] = []
    count = size = 0
    few = 1  # rows at a time: never many more than the limits allow, for later rows may be slow
    while rows := cursor.fetchmany(min(few, job.max_rows - count + 1)):
        sizes = digest.add(rows)
        if max(sizes) >= _LARGE_ROW:  # a blob's text form is up to four times as long as the blob
            sizes = [
                sum(len(cell) if isinstance(cell, str | bytes) else 8 for cell in row)
                if written >= _LARGE_ROW
                else written
                for row, written in zip(rows, sizes, strict=True)
            ]
        if count + len(rows) > job.max_rows or size + sum(sizes) > job.max_bytes:
            for row, written in zip(rows, sizes, strict=True):
                if count >= job.max_rows or size > job.max_bytes:
                    break
                count += 1
                size += written
                if count <= job.keep_rows and size <= job.max_bytes:
                    kept.append(row)
            return _over(job, columns, kept, count)
        kept += rows[: max(0, job.keep_rows - count)]
        count += len(rows)
        size += sum(sizes)
        room = min(_BYTES_AT_ONCE, job.max_bytes - size)
        few = min(16 * few, _MOST_AT_ONCE, 1 + room * count // size)
    return QueryResult(Status.OK, columns, tuple(kept), count, True, *digest.digests())


def _over(
    job: Job, columns: tuple[str, ...], kept: list[tuple[Any, ...]], count: int
) -> QueryResult:
    if job.cut:
        return QueryResult(Status.OK, columns, tuple(kept), count, complete=False)
    what = f"{job.max_rows:,} rows" if count >= job.max_rows else f"{job.max_bytes:,} bytes"
    error = f"the result has more than {what}"
    return QueryResult(Status.TOO_LARGE, columns, (), count, complete=False, error=error)


def _failed(job: Job, error: sqlite3.Error) -> QueryResult:
    """Tell the query's mistakes from limits and from a database that fails."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    text = str(error)
    if len(text) > MESSAGE_CHARS:
        text = f"{text[:MESSAGE_CHARS]}... [cut]"
    if code == sqlite3.SQLITE_INTERRUPT:
        return QueryResult(Status.TIMEOUT, error=timeout_message(job.seconds))
    if code == sqlite3.SQLITE_TOOBIG:
        message = f"a text or blob grew over {MAX_VALUE_BYTES:,} bytes: {text}"
        return QueryResult(Status.TOO_LARGE, error=message)
    # READONLY itself is about the statement, its extended codes about recovery and journals.
    recovery = code & 0xFF == sqlite3.SQLITE_READONLY and code != sqlite3.SQLITE_READONLY
    if code & 0xFF == sqlite3.SQLITE_CORRUPT and not text.startswith(_NO_TABLE):
        return QueryResult(Status.INFRASTRUCTURE, error=f"{job.path}: {DAMAGED} ({text})")
    if code & 0xFF in _BROKEN_FILE or recovery:
        if code & 0xFF in _LOCKED:
            waited = f"this query waited {lock_wait(job):g} s for it"
            text += f": another program is writing it, and {waited}; try again when it is done"
        return QueryResult(Status.INFRASTRUCTURE, error=f"{job.path}: {text}")
    if "number of bindings" in text:  # no parameters are ever given
        text = "the statement has a parameter (?, :name, @name or $name); write its value there"
    return QueryResult(Status.ERROR, error=text + _missing_here(text))


def _missing_here(message: str) -> str:
    """Say more about what a query needs and this SQLite lacks; empty if there is nothing to say."""
    kind, _, name = message.partition(": ")
    if kind == "no such collation sequence":
        return (
            " (the application that made this database defines it, and this program does not have "
            "it: read the rows without comparing, sorting or counting by it)"
        )
    if kind == "no query solution":
        return " (a key of the table needs a collation that this program does not have)"
    since = _SINCE.get(name.lower()) if kind == "no such function" else None
    if since and since > sqlite3.sqlite_version_info[:2]:
        return f" (SQLite {since[0]}.{since[1]} has it, this is {sqlite3.sqlite_version})"
    return ""


# Functions and the version of SQLite that brought them (https://www.sqlite.org/changes.html).
_SINCE = {
    **dict.fromkeys(("format", "unixepoch"), (3, 38)),
    "unhex": (3, 41),
    "json_error_position": (3, 42),
    **dict.fromkeys(("octet_length", "timediff"), (3, 43)),
    **dict.fromkeys(("concat", "concat_ws", "string_agg"), (3, 44)),
    **dict.fromkeys(
        ("jsonb", "jsonb_array", "jsonb_extract", "jsonb_group_array", "jsonb_group_object",
         "jsonb_insert", "jsonb_object", "jsonb_patch", "jsonb_remove", "jsonb_replace",
         "jsonb_set"),
        (3, 45),
    ),
    "json_pretty": (3, 46),
    "if": (3, 48),
    **dict.fromkeys(("unistr", "unistr_quote"), (3, 50)),
}  # fmt: skip


def _quoting_warnings(statement: str, database: Database) -> list[str]:
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
