"""A cache of results, so that a query runs again only if something has changed.

The key is the content of the database, the text, the limits, SQLite's version and build, and the
version of this package. Only digests are stored, no rows. Never stored are timeouts and whatever
else depends on the machine, queries whose result depends on chance or the clock, and results from a
database that changed a moment ago.
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
"""The most results that are stored, some 300 MB; the oldest are dropped first."""

_CLOCK_TICK_NS = 2_000_000_000  # of the coarsest file systems
_TABLES = """
CREATE TABLE IF NOT EXISTS results (key TEXT UNIQUE, result TEXT);
CREATE TABLE IF NOT EXISTS databases (stamp TEXT PRIMARY KEY, fingerprint TEXT);
"""
_VIEWS = "SELECT sql FROM sqlite_master WHERE type = 'view'"
_Place = tuple[Path, str, int]
"""A text, and a number that keeps apart runs whose results may differ each time."""


class KnownResults:
    """The cache in a folder; several processes may use it at the same time.

    Raises Text2SqlError where its file cannot be read or written.
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
        """Return the stored results by key."""
        found = {}
        try:
            for key in keys:
                row = self._connection.execute(
                    "SELECT result FROM results WHERE key = ?", (key,)
                ).fetchone()
                if row is not None:
                    status, count, digest, multiset, ordered, error = json.loads(row[0])
                    found[key] = QueryResult(
                        Status(status),
                        row_count=count,
                        digest=digest,
                        multiset_digest=multiset,
                        ordered_digest=ordered,
                        error=error,
                    )
        except (ValueError, TypeError, sqlite3.Error) as error:
            raise self._failed(error) from error
        return found

    def add(self, results: Mapping[str, QueryResult]) -> None:
        """Store those results that are the same on any machine."""
        rows = []
        for key, one in results.items():
            if one.status in _KEPT and one.complete:
                digests = one.digest, one.multiset_digest, one.ordered_digest
                rows.append((key, json.dumps([one.status, one.row_count, *digests, one.error])))
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", rows)
                oldest = "DELETE FROM results WHERE rowid <= (SELECT max(rowid) FROM results) - ?"
                self._connection.execute(oldest, (_MOST,))
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def fingerprint(self, database: Path, sandbox: Sandbox) -> str:
        """Return a hash of a database's content; empty where its results must not be stored."""
        stamp = _state_of(database)
        # Within a tick of the clock, another change might leave the stamp as it is.
        if not stamp or time_ns() - max(json.loads(stamp)[-2:]) < _CLOCK_TICK_NS:
            return ""
        query = "SELECT fingerprint FROM databases WHERE stamp = ?"
        try:
            row = self._connection.execute(query, (stamp,)).fetchone()
            if row is not None:
                return str(row[0])
            views = sandbox.execute(database, _VIEWS, Limits(keep_rows=10_000, max_rows=10_000))
            listed = views.status is Status.OK
            steady = listed and all(is_repeatable(str(view)) for (view,) in views.rows)
            fingerprint = file_digest(database) if steady else ""
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
        return Text2SqlError(f"{reason} Delete the file, or run with --no-cache.")


def execute_known(
    texts: Sequence[Text], sandbox: Sandbox, limits: Limits, known: KnownResults | None = None
) -> list[QueryResult]:
    """Run texts with strict text decoding, equal ones once, cached ones not at all.

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


def _keys(
    places: Iterable[_Place], sandbox: Sandbox, limits: Limits, known: KnownResults | None
) -> dict[_Place, str]:
    """Return the cache key of each text whose result may be stored."""
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
    """Return SQLite's version and build, on which its functions and modules depend."""
    with closing(sqlite3.connect(":memory:")) as connection:
        options = connection.execute("PRAGMA compile_options").fetchall()
    return [sqlite3.sqlite_version, *(option for (option,) in options)]


def _state_of(database: Path) -> str:
    """Return a stamp that changes with a database; empty while another program has it open."""
    real = os.path.realpath(database)
    if any(os.path.exists(real + end) for end in ("-journal", "-wal")):
        return ""
    try:
        return json.dumps([real, *stamp_of(real)])
    except OSError:
        return ""


def database_digests(
    questions: Iterable[Question], sandbox: Sandbox, known: KnownResults | None = None
) -> dict[str, str]:
    """Return the sha256 of each database by db_id, from the cache where it is ``known``.

    A write-ahead log counts as well. Raises Text2SqlError for a file that cannot be read.
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
