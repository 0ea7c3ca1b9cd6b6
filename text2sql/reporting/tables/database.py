"""Opening the reporting database: SQLite or PostgreSQL, named by a URL."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.model.values import clean_text
from text2sql.reporting.tables.owners import missing_right
from text2sql.reporting.tables.urls import parse_url, shown

_log = logging.getLogger(__name__)
_BUSY_SECONDS = 60
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_NO_RIGHT = "42501"
_REFUSED_ROWS = ("P0001", "44000")
"""What PostgreSQL calls a trigger's RAISE EXCEPTION, and a row outside of a view's condition."""
_OWN_TABLES = {"questions", "answers", "answer_rows"}


class Database:
    """A reporting database, whatever is in it; a context manager, safe to use from threads.

    ``writer`` is the same engine for transactions that write. A database that is down, full,
    locked for a minute or not writable raises InfrastructureError with the database's own words.
    """

    def __init__(self, url: str):
        """Open the database."""
        try:
            self.engine = open_engine(url)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise Text2SqlError(
                f"{error}: PostgreSQL needs its driver; install text2sql-lifecycle[postgres]"
            ) from error
        self.writer = self.engine.execution_options(writes=True)

    def __enter__(self) -> Self:
        """Return the database."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    @property
    def name(self) -> str:
        """Where the database is, without a password."""
        return shown(self.engine.url)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection for one transaction that writes; it is undone if an error leaves it."""
        with self.named_errors(), self.writer.begin() as connection:
            yield connection

    def read(self, query: sa.Select[Any]) -> list[sa.Row[Any]]:
        """Return the rows that a query finds."""
        with self.named_errors(), self.engine.connect() as connection:
            return list(connection.execute(query))

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn what the database complains of into InfrastructureError.

        What it refuses of the rows at hand (a value that it cannot hold, a constraint or a trigger
        of its owner), which says nothing of the next ones, becomes Text2SqlError.
        """
        try:
            yield
        except (DBAPIError, OverflowError, PoolTimeout) as error:
            words = " ".join(str(getattr(error, "orig", error.args[0])).split())
            if _sqlstate(error) == _NO_RIGHT:
                words += f"; {missing_right(self.engine)}"
            kind = Text2SqlError if _is_about_rows(error) else InfrastructureError
            raise kind(f"reporting database {self.name}: {words}") from error


def _is_about_rows(error: Exception) -> bool:
    if isinstance(error, DataError | IntegrityError | OverflowError):
        return True
    return _sqlstate(error) in _REFUSED_ROWS


def _sqlstate(error: Exception) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)


def _to_json(value: Any) -> str:
    """Return JSON without the characters that PostgreSQL cannot hold; infinities are refused.

    JSON writes a NUL as an escape, which PostgreSQL stores and then cannot read as text.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return clean_text(_NUL.sub("\\1\u2400", text))


def open_engine(url: str) -> Engine:
    """Open the database that ``url`` names, for example ``sqlite:///artifacts/reporting.sqlite``.

    Raises Text2SqlError for a URL that is malformed or names another kind of database, and for
    an SQLite file that holds something else.
    """
    parsed = parse_url(url)
    _log.debug("reporting database %s", shown(parsed))
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed)
    engine = sa.create_engine(
        parsed,
        json_serializer=_to_json,
        pool_pre_ping=True,
        client_encoding="utf8",  # a database without an encoding would give bytes
        isolation_level="READ COMMITTED",  # under a stricter default writers refuse each other
        connect_args={"prepare_threshold": None},  # poolers change connections in between
    )
    sa.event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _open_sqlite(url: URL) -> Engine:
    _refuse_occupied(Path(str(url.database)))
    try:
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Text2SqlError(f"{url.database}: the folder cannot be made: {error}") from error
    engine = sa.create_engine(
        url, json_serializer=_to_json, connect_args={"timeout": _BUSY_SECONDS}
    )
    sa.event.listen(engine, "connect", _set_up_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _refuse_occupied(file: Path) -> None:
    """Raise Text2SqlError for a database of something else, before anything in it is touched."""
    if not file.is_file():
        return
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = {name for (name,) in found}
    except sqlite3.DatabaseError:
        return  # opening it properly says what is wrong
    finally:
        connection.close()
    if names and not names >= _OWN_TABLES:
        some = ", ".join(sorted(names)[:3])
        raise Text2SqlError(
            f"{file} holds other tables ({some}): it may be a database that is asked; give the"
            " reports a file of their own"
        )


def _set_up_postgresql(connection: Any, record: Any) -> None:
    """Let instants come as ISO, the only form that the driver reads, whatever the role's style."""
    connection.autocommit = True
    connection.execute("SET DateStyle TO ISO")
    connection.autocommit = False


def _set_up_sqlite(connection: Any, record: Any) -> None:
    """Hand transactions to SQLAlchemy, enforce foreign keys, let readers and a writer coexist."""
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock at once where a transaction will write.

    A transaction that reads first and writes later fails at once, without waiting, when
    another one wrote in between.
    """
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def wait_for_others(connection: Connection, lock: int) -> None:
    """Let one transaction at a time do what ``lock`` stands for; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
