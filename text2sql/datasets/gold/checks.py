"""Run what must be run once on every dataset: a look into each database, and each gold query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from text2sql.agent.schema.tables import DatabaseSchema, Table, describe
from text2sql.common.files import file_digest
from text2sql.common.render import quoted
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.verdicts import GoldResult, run_gold
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status

_SCAN = Limits(seconds=600.0, keep_rows=1)
"""For statements that read a whole database: BIRD's largest has several GB."""

OK = "ok"
_OF_ANOTHER_PROGRAM = re.compile(
    r"(?:no such|unknown) (?:collation sequence|function|module|tokenizer)|no such table: main\.|"
    r"vtable constructor failed"
)
"""What SQLite says of a table that needs a program's own parts: ICU, SpatiaLite, Android."""


@dataclass(frozen=True)
class DatabaseReport:
    """What one database file is: ``state`` is ``ok`` or the sentence that says what is wrong.

    ``rows`` counts the rows of all tables. ``unmatched`` names description files and columns
    that the database does not have; they are never shown to a policy. ``doubts`` says which
    descriptions may be read otherwise than they were meant; ``unread`` which tables could not be
    checked or counted, as only the program that made them has what that takes.
    """

    db_id: str
    path: str
    state: str
    bytes: int = 0
    sha256: str = ""
    tables: int = 0
    rows: int = 0
    unmatched: str = ""
    doubts: str = ""
    unread: str = ""


def inspect_database(
    file: Path, sandbox: Sandbox, sha256: str = "", indexes: bool = False
) -> DatabaseReport:
    """Open one database, let SQLite check it, and count its tables and rows.

    ``sha256`` is the file's, where the caller knows it already. With ``indexes`` every index is
    compared with its table too (SQLite's integrity check), which takes much longer. A database
    that cannot be used is a report with another ``state``, never an exception.
    """
    report = DatabaseReport(file.stem, str(file), OK)
    try:
        sha256 = sha256 or file_digest(file)
        report = replace(report, bytes=file.stat().st_size, sha256=sha256)
        pragma = "integrity_check" if indexes else "quick_check"
        state = _check(file, f"{pragma}(1)", sandbox)
        whole = not _OF_ANOTHER_PROGRAM.match(state)
        if state != OK and whole:
            return replace(report, state=state)
        schema = describe(file, sandbox)
        report = replace(
            report,
            tables=sum(not table.is_view for table in schema.tables),
            unmatched="; ".join(_unmatched(schema)),
            doubts="; ".join(schema.descriptions.doubts),
        )
        return _count(report, schema, sandbox, "" if whole else pragma)
    except InfrastructureError:
        raise
    except (Text2SqlError, OSError) as error:
        return replace(report, state=_short(error, file))


def _short(error: Exception | str, file: Path) -> str:
    """Return what is wrong without the file's path, which may be longer and stands beside it."""
    return str(error).removeprefix(f"{file}: ")


def _check(file: Path, pragma: str, sandbox: Sandbox) -> str:
    result = _scan(file, f"PRAGMA {pragma}", sandbox)
    return str(result.rows[0][0]) if result.status is Status.OK else _short(result.error, file)


def _count(
    report: DatabaseReport, schema: DatabaseSchema, sandbox: Sandbox, pragma: str
) -> DatabaseReport:
    """Count the rows of all tables, and with a ``pragma`` check each; note what cannot be read."""
    rows, unread = 0, []
    for table in schema.tables:
        if not table.is_view:
            count, problem = _look(Path(report.path), table, sandbox, pragma)
            rows += count
            unread += [f"{table.name}: {problem}"] if problem else []
    if unread and len(unread) == report.tables:
        return replace(report, state=f"no table can be read; the first is {unread[0]}")
    return replace(report, rows=rows, unread="; ".join(unread))


def _look(file: Path, table: Table, sandbox: Sandbox, pragma: str) -> tuple[int, str]:
    """Return how many rows a table has, and why it cannot be read.

    Raises Text2SqlError where that is a fault of the database.
    """
    checked = _check(file, f"{pragma}({quoted(table.name)})", sandbox) if pragma else OK
    result = _scan(file, f"SELECT COUNT(*) FROM {quoted(table.name)}", sandbox)
    problem = checked if checked != OK else result.error
    if problem and not _OF_ANOTHER_PROGRAM.match(problem):
        raise Text2SqlError(f"Cannot count the rows of {table.name}: {problem}.")
    return (result.rows[0][0] if result.status is Status.OK else 0), problem


def _scan(file: Path, sql: str, sandbox: Sandbox) -> QueryResult:
    """Run a statement; a lost worker or a locked file says nothing about the database."""
    result = sandbox.execute(file, sql, _SCAN)
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(f"{file} could not be checked: {result.error}; run again.")
    return result


def _unmatched(schema: DatabaseSchema) -> list[str]:
    notes = schema.descriptions
    return [*notes.unmatched_files, *notes.unreadable_files, *notes.phantom_columns]


def run_golds(
    questions: Sequence[Question],
    sandbox: Sandbox,
    limits: Limits,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, GoldResult]:
    """Run each distinct gold query once on all workers; return results by question key.

    ``on_progress`` is told how many of how many queries have ended.
    """
    groups: dict[tuple[Path, str], list[Question]] = {}
    for question in questions:
        groups.setdefault((question.database, question.sql), []).append(question)
    results: dict[str, GoldResult] = {}
    with _pool(sandbox) as pool:
        running = {
            pool.submit(run_gold, group[0], sandbox, limits): group for group in groups.values()
        }
        for ended, future in enumerate(as_completed(running), start=1):
            for question in running[future]:
                results[question.key] = replace(future.result(), key=question.key)
            if on_progress is not None:
                on_progress(ended, len(running))
    return {question.key: results[question.key] for question in questions}


@contextmanager
def _pool(sandbox: Sandbox) -> Iterator[ThreadPoolExecutor]:
    """One thread for each sandbox worker; what has not begun is dropped on an error."""
    pool = ThreadPoolExecutor(sandbox.workers, "text2sql-checks")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
