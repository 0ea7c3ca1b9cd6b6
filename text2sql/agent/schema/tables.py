"""Read a database's tables, columns, keys and row counts through the sandbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path

from text2sql.agent.schema import descriptions
from text2sql.agent.schema.descriptions import Descriptions
from text2sql.common.render import Column, folded, quote_name, quoted
from text2sql.errors import InfrastructureError
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status

_QUERY = Limits(seconds=30.0, keep_rows=100_000, max_rows=100_000)
_COUNT = Limits(seconds=5.0, keep_rows=1)
_COUNT_SECONDS = 30.0
_VIEW_SECONDS = 60.0
_MOST_KNOWN = 256
_LIKELY = 20
_HIDDEN_COLUMN = 1


@dataclass(frozen=True)
class Table:
    """A table or view; ``error`` says why a broken one has no columns.

    ``row_count`` is None for views, and if counting took more than five seconds, or more than
    thirty with the tables before; ``uncounted`` says why it failed. ``notes`` maps a column to its
    description.
    """

    name: str
    is_view: bool = False
    columns: tuple[Column, ...] = ()
    row_count: int | None = None
    error: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    uncounted: str = ""


@dataclass(frozen=True)
class DatabaseSchema:
    """The tables in the order of their creation, and the descriptions beside the database."""

    tables: tuple[Table, ...]
    descriptions: Descriptions = field(default_factory=Descriptions)

    def find(self, name: str) -> Table | None:
        """Find a table by its name in any case, with or without quotes or ``main.``."""
        written = name.strip()
        for target in (written, _unquoted(written)):
            named = [table for table in self.tables if folded(table.name) == folded(target)]
            stripped = folded(target.strip())
            spaced = [table for table in self.tables if folded(table.name.strip()) == stripped]
            if found := named or spaced:
                return min(found, key=lambda table: table.name != target)
        return None

    def names_like(self, name: str) -> list[str]:
        """Return the names of all tables, those that look like ``name`` first."""
        target = _unquoted(name.strip()).lower()

        def rank(name: str) -> tuple[bool, float]:
            known = name.lower()
            return target not in known, -SequenceMatcher(None, target, known).ratio()

        names = [table.name for table in self.tables]
        likely = sorted(names, key=rank)[:_LIKELY] if len(names) > _LIKELY else []
        return list(dict.fromkeys([*likely, *names]))


def describe(database: Path, sandbox: Sandbox) -> DatabaseSchema:
    """Describe a database; a second call answers from memory until the file changes.

    Internal tables (``sqlite_...``, the shadow tables of virtual tables) are left out. Raises
    Text2SqlError if the database or the folder of its descriptions cannot be read,
    InfrastructureError if a worker is lost.
    """
    database = Path(database)
    with _lock:
        mine = _locks.setdefault(database, threading.Lock())
    with mine:
        identity = _identity(database)
        known = _known.get(identity)
        if known is None:
            known = _describe(database, sandbox)
            with _lock:
                if len(_known) >= _MOST_KNOWN:
                    _known.pop(next(iter(_known)))
                _known[identity] = known
        return known


_lock = threading.Lock()
_locks: dict[Path, threading.Lock] = {}
_known: dict[tuple[object, ...], DatabaseSchema] = {}


def _identity(database: Path) -> tuple[object, ...]:
    """Identify the state of the file, its log and descriptions: paths, change times and sizes."""
    described = descriptions.description_files(database)
    parts: list[object] = [database.absolute(), *described, *descriptions.unread_files(database)]
    log = database.with_name(database.name + "-wal")
    for file in (database, log, *described):
        with suppress(OSError):  # a missing or unreadable file is reported later
            status = file.stat()
            parts += [status.st_mtime_ns, status.st_size]
    return tuple(parts)


def _describe(database: Path, sandbox: Sandbox) -> DatabaseSchema:
    of_shadows = "SELECT name FROM pragma_table_list WHERE type = 'shadow'"
    shadows = {row[0] for row in _rows(sandbox, database, of_shadows)}
    of_tables = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"
    shown = {
        str(name): kind == "view"
        for name, kind in _rows(sandbox, database, f"{of_tables} ORDER BY rowid")
        if name not in shadows and not str(name).lower().startswith("sqlite_")
    }
    tables = list(_tables(sandbox, database, shown))
    notes = descriptions.read_descriptions(
        database, {table.name: [column.name for column in table.columns] for table in tables}
    )
    deadline = time.monotonic() + _COUNT_SECONDS
    described: list[Table] = []
    for table in tables:
        is_counted = not (table.is_view or table.error or time.monotonic() > deadline)
        if is_counted:
            sql = f"SELECT count(*) FROM {quoted(table.name)}"
            found = _run(sandbox, database, sql, _COUNT)
            if found.status is Status.OK and found.rows:
                table = replace(table, row_count=int(found.rows[0][0]))
            elif found.status is Status.ERROR:
                table = replace(table, uncounted=_why_uncounted(found.error))
        described.append(replace(table, notes=notes.columns.get(table.name, {})))
    return DatabaseSchema(tuple(described), notes)


def _why_uncounted(error: str) -> str:
    kind, _, rest = error.partition(": ")
    if kind != "no such collation sequence":
        return error
    return (
        f'the count needs the collation "{rest.partition(" (")[0]}", which this program does not '
        "have; SELECT without ORDER BY or comparisons may still read them"
    )


def _run(sandbox: Sandbox, database: Path, sql: str, limits: Limits = _QUERY) -> QueryResult:
    result = sandbox.execute(database, sql, limits)
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(f"The tables of {database} cannot be read: {result.error}.")
    return result


def _rows(sandbox: Sandbox, database: Path, sql: str) -> tuple[tuple[object, ...], ...]:
    result = _run(sandbox, database, sql)
    if result.status is not Status.OK:
        raise InfrastructureError(
            f"The tables of {database} cannot be listed: {result.error or result.status}."
        )
    return result.rows


def _tables(sandbox: Sandbox, database: Path, names: Mapping[str, bool]) -> Iterator[Table]:
    """Read tables, and views (True) until those have taken a minute to compile."""
    left = _VIEW_SECONDS
    for name, is_view in names.items():
        if is_view and left < 0:
            yield Table(name, is_view, error="not looked at; the views before it took too long")
            continue
        started = time.monotonic()
        yield _table(sandbox, database, name, is_view)
        left -= time.monotonic() - started if is_view else 0.0


def _table(sandbox: Sandbox, database: Path, name: str, is_view: bool) -> Table:
    columns = _run(sandbox, database, f"PRAGMA table_xinfo({quoted(name)})")
    if columns.status is not Status.OK or not columns.rows:
        return Table(name, is_view, error=columns.error or "its columns cannot be read")
    if is_view:  # its columns may be listed although it cannot be read: a missing collation
        tried = _run(sandbox, database, f"SELECT * FROM {quoted(name)} LIMIT 0")
        if tried.status is Status.ERROR:
            return Table(name, is_view, error=tried.error)
    keys = _run(sandbox, database, f"PRAGMA foreign_key_list({quoted(name)})")
    references = _references(sandbox, database, keys)
    return Table(
        name,
        is_view,
        tuple(
            Column(str(row[1]), str(row[2]), bool(row[5]), references.get(str(row[1]), ""))
            for row in columns.rows
            if row[6] != _HIDDEN_COLUMN
        ),
    )


def _references(sandbox: Sandbox, database: Path, keys: QueryResult) -> dict[str, str]:
    """Map a column to ``table.column``; a key that names no column refers to the primary key."""
    found: dict[str, str] = {}
    for row in keys.rows:
        position, parent, column, target = int(row[1]), str(row[2]), str(row[3]), row[4]
        if target is None:
            listed = _run(sandbox, database, f"PRAGMA table_xinfo({quoted(parent)})").rows
            primary = sorted((row for row in listed if row[5]), key=lambda row: row[5])
            target = primary[position][1] if position < len(primary) else None
        text = quote_name(parent)
        found[column] = text if target is None else f"{text}.{quote_name(str(target))}"
    return found


def _unquoted(name: str) -> str:
    name = name[5:] if name.lower().startswith("main.") else name
    for opening, closing in ('""', "''", "``", "[]"):
        if len(name) > 2 and name.startswith(opening) and name.endswith(closing):
            return name[1:-1].replace(closing * 2, closing)
    return name
