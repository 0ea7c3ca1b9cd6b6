"""Run what must be run once on every dataset: a look into each database, and each gold query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.files import file_digest
from text2sql.judge import GoldResult, run_gold
from text2sql.questions import Question
from text2sql.render import quote_name
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status
from text2sql.schema import DatabaseSchema, describe

_SCAN = Limits(seconds=600.0, keep_rows=1)
"""For statements that read a whole database: BIRD's largest has several GB."""

OK = "ok"


@dataclass(frozen=True)
class DatabaseReport:
    """What one database file is: ``state`` is ``ok`` or the sentence that says what is wrong.

    ``rows`` counts the rows of all tables. ``unmatched`` names description files and columns
    that the database does not have; they are never shown to a policy. ``doubts`` says which
    descriptions may be read otherwise than they were meant.
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
        state = _check(file, "integrity_check" if indexes else "quick_check", sandbox)
        if state != OK:
            return replace(report, state=state)
        schema = describe(file, sandbox)
        return replace(
            report,
            tables=sum(not table.is_view for table in schema.tables),
            rows=_count_rows(file, schema, sandbox),
            unmatched="; ".join(_unmatched(schema)),
            doubts="; ".join(schema.descriptions.doubts),
        )
    except InfrastructureError:
        raise
    except (Text2SqlError, OSError) as error:
        return replace(report, state=_short(error, file))


def _short(error: Exception | str, file: Path) -> str:
    """Return what is wrong without the file's path, which may be longer and stands beside it."""
    return str(error).removeprefix(f"{file}: ")


def _check(file: Path, pragma: str, sandbox: Sandbox) -> str:
    result = _scan(file, f"PRAGMA {pragma}(1)", sandbox)
    return str(result.rows[0][0]) if result.status is Status.OK else _short(result.error, file)


def _count_rows(file: Path, schema: DatabaseSchema, sandbox: Sandbox) -> int:
    total = 0
    for table in schema.tables:
        if not table.is_view:
            result = _scan(file, f"SELECT COUNT(*) FROM {quote_name(table.name)}", sandbox)
            if result.status is not Status.OK:
                raise Text2SqlError(f"Cannot count the rows of {table.name}: {result.error}.")
            total += result.rows[0][0]
    return total


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
