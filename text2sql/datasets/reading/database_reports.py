"""The state and size of each database; each content is inspected once, whatever its path."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from text2sql.agent.schema.descriptions import description_files, unread_files
from text2sql.agent.schema.tables import Table, describe
from text2sql.common.files import file_digest, write_whole
from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.render import quoted
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status

_SCAN = Limits(seconds=600.0, keep_rows=1)
"""For statements that read a whole database: BIRD's largest has several GB."""

OK = "ok"
_NEEDS_ANOTHER_PROGRAM = re.compile(
    r"(?:no such|unknown) (?:collation sequence|function|module|tokenizer)|no such table: main\.|"
    r"vtable constructor failed"
)
"""SQLite's errors for tables that need another program's extensions: ICU, SpatiaLite, Android."""


@dataclass(frozen=True)
class DatabaseReport:
    """The state of one database file: ``ok``, or a sentence that says what is wrong.

    ``rows`` counts the rows of all tables, ``table_rows`` has those of each. ``unmatched`` lists
    description files and columns that the database does not have; they are never shown to a policy.
    ``doubts`` lists ambiguous descriptions, ``unread`` the tables that only the program that made
    them can read.
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
    table_rows: str = ""  # JSON: a text, so that every row of the table has one type


def inspect_database(
    file: Path, sandbox: Sandbox, sha256: str = "", indexes: bool = False
) -> DatabaseReport:
    """Open one database, let SQLite check it, and count its tables and rows.

    ``sha256`` is the file's, if the caller knows it. With ``indexes`` every index is compared with
    its table too (SQLite's integrity check), which takes much longer. An unusable database gives a
    report with another ``state``, never an exception.
    """
    report = DatabaseReport(file.stem, str(file), OK)
    try:
        sha256 = sha256 or file_digest(file)
        report = replace(report, bytes=file.stat().st_size, sha256=sha256)
        pragma = "integrity_check" if indexes else "quick_check"
        state = _check(file, f"{pragma}(1)", sandbox)
        complete = not _NEEDS_ANOTHER_PROGRAM.match(state)
        if state != OK and complete:
            return replace(report, state=state)
        schema = describe(file, sandbox)
        notes = schema.descriptions
        unmatched = [*notes.unmatched_files, *notes.unreadable_files, *notes.phantom_columns]
        tables = [table for table in schema.tables if not table.is_view]
        doubts = "; ".join(notes.doubts)
        report = replace(report, unmatched="; ".join(unmatched), doubts=doubts, tables=len(tables))
        rows, unread = {}, []
        for table in tables:
            count, problem = _read_table(file, table, sandbox, "" if complete else pragma)
            rows[table.name] = count
            unread += [f"{table.name}: {problem}"] if problem else []
        if unread and len(unread) == len(tables):
            return replace(report, state=f"no table can be read; the first is {unread[0]}")
        report = replace(report, rows=sum(rows.values()), table_rows=json.dumps(rows))
        return replace(report, unread="; ".join(unread))
    except InfrastructureError:
        raise
    except (Text2SqlError, OSError) as error:  # the path is shown beside the state
        return replace(report, state=str(error).removeprefix(f"{file}: "))


def _check(file: Path, pragma: str, sandbox: Sandbox) -> str:
    result = _scan(file, f"PRAGMA {pragma}", sandbox)
    if result.status is not Status.OK:
        return result.error.removeprefix(f"{file}: ")
    return str(result.rows[0][0])


def _read_table(file: Path, table: Table, sandbox: Sandbox, pragma: str) -> tuple[int, str]:
    """Return a table's row count and why it cannot be read; raise if the database is damaged."""
    checked = _check(file, f"{pragma}({quoted(table.name)})", sandbox) if pragma else OK
    result = _scan(file, f"SELECT COUNT(*) FROM {quoted(table.name)}", sandbox)
    # What the sandbox adds in brackets is for whoever writes a query.
    problem = (checked if checked != OK else result.error).partition(" (")[0]
    if problem and not _NEEDS_ANOTHER_PROGRAM.match(problem):
        raise Text2SqlError(f"Cannot count the rows of {table.name}: {problem}.")
    return (result.rows[0][0] if result.status is Status.OK else 0), problem


def _scan(file: Path, sql: str, sandbox: Sandbox) -> QueryResult:
    """Run a statement; a lost worker or a locked file says nothing about the database."""
    result = sandbox.execute(file, sql, _SCAN)
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(f"{file} could not be checked: {result.error}; run again.")
    return result


class DatabaseReports:
    """Reports on databases, cached in ``folder`` by content.

    ``version`` names the inspecting code: reports of another version are not used. Only sound
    databases are cached, since a problem may be fixed without changing the file.
    ``indexes`` compares every index with its table.
    """

    def __init__(self, folder: Path, version: str, digests: Digests, indexes: bool = False) -> None:
        self._folder, self._digests, self._indexes = folder, digests, indexes
        self._version = f"{version} with indexes" if indexes else version
        self.inspected: list[Path] = []
        """The databases that were not in the cache."""

    def of(self, databases: Mapping[str, Path], sandbox: Sandbox) -> list[DatabaseReport]:
        """Return a report for each database by db_id, using all workers.

        Sound files with the same content are inspected once; a problem may be due to a file's
        place, so each of the others gets its own report.
        """
        contents = {db_id: self._content(file) for db_id, file in databases.items()}
        files = {contents[db_id]: file for db_id, file in databases.items()}
        with ThreadPoolExecutor(sandbox.workers, "text2sql-reports") as pool:
            found = pool.map(lambda item: self._cached(item[0], item[1], sandbox), files.items())
            by_content = dict(zip(files, found, strict=True))
        reports = []
        for db_id, file in databases.items():
            report = by_content[contents[db_id]]
            if report.state != OK and report.path != str(file):
                report = self._inspect(file, sandbox)
            reports.append(replace(report, db_id=db_id, path=str(file)))
        return reports

    def _cached(self, content: str, file: Path, sandbox: Sandbox) -> DatabaseReport:
        store = self._folder / f"{content}.json"
        try:
            return DatabaseReport(**json.loads(store.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):  # not cached, or a damaged cache
            report = self._inspect(file, sandbox)
        if report.state == OK:
            write_whole(store, json.dumps(asdict(report)))
        return report

    def _inspect(self, file: Path, sandbox: Sandbox) -> DatabaseReport:
        self.inspected.append(file)
        return inspect_database(file, sandbox, self._digests.of(file), self._indexes)

    def _content(self, file: Path) -> str:
        """Return a version of the database, its write-ahead log and its descriptions."""
        logs = [file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-journal")]
        beside = [*(log for log in logs if log.is_file()), *description_files(file)]
        unread = "\n".join(one.name for one in unread_files(file))
        own = {"version": self._version, "unread": unread, "database": self._digests.of(file)}
        return combine_digests(own | {one.name: self._digests.of(one) for one in beside})


def changes_since(file: Path, source: str, reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say for each report what differs from the source's last ingestion, and record this one.

    Reports are rows with ``split``, ``db_id`` and ``table_rows``; ``file`` has the record of all
    sources. The text is empty for a database that is as before, or new.
    """
    known = read_if_there(file)
    before = known.get(source, {})
    now = {
        f"{one['split']}/{one['db_id']}": json.loads(one["table_rows"] or "{}") for one in reports
    }
    write_json(file, known | {source: now})
    return [_difference(before.get(key, tables), tables) for key, tables in now.items()]


def _difference(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    changes = []
    for table in dict.fromkeys([*before, *now]):
        old, new = before.get(table), now.get(table)
        if new is None:
            changes.append(f"{table}: gone, {old:,} rows before")
        elif old is None:
            changes.append(f"{table}: new, {new:,} rows")
        elif old != new:
            changes.append(f"{table}: {new:,} rows, {old:,} before")
    return "; ".join(changes)
