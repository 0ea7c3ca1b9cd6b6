"""Results of earlier runs, so that a query is run again only if something has changed.

A result is known by the content of its database, the text, the limits, SQLite's version and
build, and the version of this package. Only digests are kept, no rows. Timeouts and whatever
else depends on the machine are never kept, nor are queries whose result depends on chance or
the clock, nor results from a database that was changed a moment ago.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from time import time_ns

from text2sql import __version__
from text2sql.common.files import file_digest
from text2sql.errors import Text2SqlError
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status, is_repeatable
from text2sql.sandbox.files import stamp_of

Text = tuple[Path, str]
"""A database and the SQL to run on it."""

_KEPT = frozenset({Status.OK, Status.ERROR, Status.WRITE, Status.NO_STATEMENT})
_MOST = 1_000_000
"""The oldest results beyond these are dropped: some 300 MB."""

_CLOCK_TICK_NS = 2_000_000_000  # of the coarsest file systems
_TABLES = """
CREATE TABLE IF NOT EXISTS results (key TEXT UNIQUE, result TEXT);
CREATE TABLE IF NOT EXISTS databases (stamp TEXT PRIMARY KEY, fingerprint TEXT);
"""


class KnownResults:
    """A folder's file of results; several processes may use it at the same time.

    Raises Text2SqlError where the file cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.sqlite"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            self._connection.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def find(self, keys: Iterable[str]) -> dict[str, QueryResult]:
        """Return the results that are known."""
        found = {}
        try:
            for key in keys:
                row = self._connection.execute(
                    "SELECT result FROM results WHERE key = ?", (key,)
                ).fetchone()
                if row is not None:
                    found[key] = _from_json(row[0])
        except (ValueError, TypeError, sqlite3.Error) as error:
            raise self._failed(error) from error
        return found

    def add(self, results: Mapping[str, QueryResult]) -> None:
        """Keep those results that hold for any machine."""
        kept = {k: r for k, r in results.items() if r.status in _KEPT and r.complete}
        rows = [(key, _to_json(result)) for key, result in kept.items()]
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", rows)
                oldest = "DELETE FROM results WHERE rowid <= (SELECT max(rowid) FROM results) - ?"
                self._connection.execute(oldest, (_MOST,))
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def fingerprint(self, database: Path, sandbox: Sandbox) -> str:
        """Return a hash of a database's content; empty where its results must not be kept."""
        stamp = _state_of(database)
        if not stamp or _is_fresh(stamp):
            return ""
        query = "SELECT fingerprint FROM databases WHERE stamp = ?"
        try:
            row = self._connection.execute(query, (stamp,)).fetchone()
            if row is not None:
                return str(row[0])
            fingerprint = _fingerprint(database, sandbox)
            if _state_of(database) != stamp:
                return ""
            self._connection.execute(
                "INSERT OR REPLACE INTO databases VALUES (?, ?)", (stamp, fingerprint)
            )
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return fingerprint

    def _failed(self, error: Exception) -> Text2SqlError:
        reason = f"The results of earlier runs in {self.path} cannot be used: {error}."
        return Text2SqlError(f"{reason} Delete the file, or do without it (--no-cache).")


def execute_known(
    texts: Sequence[Text], sandbox: Sandbox, limits: Limits, known: KnownResults | None = None
) -> list[QueryResult]:
    """Run texts with strict text decoding, equal ones once, known ones not at all.

    Raises Text2SqlError when a database cannot be read at all.
    """
    distinct = [(*text, 0 if is_repeatable(text[1]) else n) for n, text in enumerate(texts, 1)]
    stamps = {database: _state_of(database) for database in {text[0] for text in texts}}
    keys = _keys([place for place in distinct if not place[2]], sandbox, limits, known)
    found = known.find(keys.values()) if known is not None else {}
    results = {place: found[key] for place, key in keys.items() if key in found}
    missing = [place for place in dict.fromkeys(distinct) if place not in results]
    run = sandbox.execute_many([place[:2] for place in missing], limits, strict_text=True)
    results.update(zip(missing, run, strict=True))
    if known is not None:
        same = {database for database, stamp in stamps.items() if _state_of(database) == stamp}
        known.add({keys[p]: results[p] for p in missing if p in keys and p[0] in same})
    return [results[place] for place in distinct]


_Place = tuple[Path, str, int]
"""A text, and a number that tells apart those that may differ each time."""


def _keys(
    places: Iterable[_Place], sandbox: Sandbox, limits: Limits, known: KnownResults | None
) -> dict[_Place, str]:
    """Return under what name each text's result may be known."""
    if known is None:
        return {}
    places = list(dict.fromkeys(places))
    prints = {d: known.fingerprint(d, sandbox) for d in {place[0] for place in places}}
    bounds = [limits.seconds, limits.max_rows, limits.max_bytes, limits.memory_mb]
    common = json.dumps([__version__, *_sqlite(), *bounds])
    return {
        place: hashlib.sha256(
            f"{common}\n{prints[place[0]]}\n{place[1]}".encode("utf-8", "surrogatepass")
        ).hexdigest()
        for place in places
        if prints[place[0]]
    }


@cache
def _sqlite() -> list[str]:
    """Name what decides which functions and modules a statement finds."""
    with closing(sqlite3.connect(":memory:")) as connection:
        options = connection.execute("PRAGMA compile_options").fetchall()
    return [sqlite3.sqlite_version, *(option for (option,) in options)]


def _state_of(database: Path) -> str:
    """Return what changes with a database's content; empty while another program has it open."""
    real = os.path.realpath(database)
    if any(os.path.exists(real + end) for end in ("-journal", "-wal")):
        return ""
    try:
        return json.dumps([real, *stamp_of(real)])
    except OSError:
        return ""


def _is_fresh(stamp: str) -> bool:
    """Whether another change might leave the stamp as it is: within a tick of the clock."""
    return bool(time_ns() - max(json.loads(stamp)[-2:]) < _CLOCK_TICK_NS)


_VIEWS = "SELECT sql FROM sqlite_master WHERE type = 'view'"


def _fingerprint(database: Path, sandbox: Sandbox) -> str:
    views = sandbox.execute(database, _VIEWS, Limits(keep_rows=10_000, max_rows=10_000))
    if views.status is not Status.OK or not all(is_repeatable(str(v)) for (v,) in views.rows):
        return ""
    return file_digest(database)


def database_digests(
    questions: Iterable[Question], sandbox: Sandbox, known: KnownResults | None = None
) -> dict[str, str]:
    """Return the sha256 of each database by db_id, read anew only where it is not ``known``.

    Commits that are still in its write-ahead log count as well. Raises Text2SqlError for a file
    that cannot be read.
    """
    files = {question.db_id: question.database for question in questions}
    try:
        return {
            name: (known and known.fingerprint(file, sandbox)) or _content(file)
            for name, file in files.items()
        }
    except OSError as error:
        raise Text2SqlError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _content(database: Path) -> str:
    log = database.with_name(f"{database.name}-wal")
    if not log.is_file() or not log.stat().st_size:
        return file_digest(database)
    return f"{file_digest(database)}+{file_digest(log)}"


def _to_json(result: QueryResult) -> str:
    return json.dumps([result.status, result.row_count, *_digests(result), result.error])


def _digests(result: QueryResult) -> tuple[str, str, str]:
    return result.digest, result.multiset_digest, result.ordered_digest


def _from_json(text: str) -> QueryResult:
    status, count, digest, multiset, ordered, error = json.loads(text)
    return QueryResult(
        Status(status),
        row_count=count,
        digest=digest,
        multiset_digest=multiset,
        ordered_digest=ordered,
        error=error,
    )
