"""Opening the reporting database, SQLite or PostgreSQL, and what to do when it refuses."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.model.values import clean_text
from text2sql.reporting.tables.location import parse_url, plain_name, shown

_log = logging.getLogger(__name__)
_BUSY_SECONDS = 60
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_NO_RIGHT = "42501"
_UNREACHED = re.compile(r"connection to server .*? failed: (?:FATAL: +)?")
_REFUSED_ROWS = ("P0001", "44000")
"""SQLSTATEs of a trigger's RAISE EXCEPTION and of a view's WITH CHECK OPTION."""
_OWN_TABLES = {"questions", "answers", "answer_rows"}
_OWNERS = """
SELECT current_user AS role, place.nspname AS schema, theirs.rolname AS schema_owner,
       theirs.rolcanlogin AND NOT theirs.rolsuper AS logs_in,
       pg_get_userbyid(made.relowner) AS tables_owner
FROM pg_namespace AS place
JOIN pg_roles AS theirs ON theirs.oid = place.nspowner
JOIN pg_class AS made ON made.relnamespace = place.oid AND made.relname = 'questions'
WHERE place.nspname = current_schema()
"""


class Database:
    """A reporting database, whatever it contains; a context manager, safe to use from threads.

    ``writer`` is the same engine for transactions that write. A database that is down, full,
    locked for a minute or not writable raises InfrastructureError with the database's message.
    """

    def __init__(self, url: str):
        """Open the database; raises like ``open_engine``."""
        try:
            self.engine = open_engine(url)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise Text2SqlError(
                f"PostgreSQL needs its driver ({error}): install text2sql-lifecycle[postgres]."
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
        """What people call the database: its file, or its name and server."""
        return plain_name(self.engine.url)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes; an error inside rolls it back."""
        with self.named_errors(), self.writer.begin() as connection:
            yield connection

    def read(self, query: sa.Select[Any]) -> list[sa.Row[Any]]:
        """Return the rows of a query."""
        with self.named_errors(), self.engine.connect() as connection:
            return list(connection.execute(query))

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn the database's errors into InfrastructureError.

        An error about the rows at hand (a value that does not fit, a constraint or a trigger of
        its owner) becomes Text2SqlError: the next rows may well be accepted.
        """
        try:
            yield
        except (DBAPIError, OverflowError, PoolTimeout) as error:
            cause = getattr(error, "orig", error.args[0])
            state = getattr(cause, "sqlstate", None)
            words, does = _cause(cause)
            if state == _NO_RIGHT:
                words += f"; {_missing_right(self.engine)}"
            about_rows = isinstance(error, DataError | IntegrityError | OverflowError)
            about_rows = about_rows or state in _REFUSED_ROWS
            kind = Text2SqlError if about_rows else InfrastructureError
            raise kind(f"The reporting database {self.name} {does}: {words}.") from error


def _cause(error: Any) -> tuple[str, str]:
    """Return the cause in a database's error, and what the database does: two parts of a sentence.

    PostgreSQL's client adds a question and a hint on lines of their own.
    """
    text = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    first = next(iter(text.strip().splitlines()), type(error).__name__)
    reason = _UNREACHED.split(first)[-1]
    does = "failed" if reason == first else "cannot be reached"
    return reason.rstrip("."), does


def _to_json(value: Any) -> str:
    """Return JSON without the characters that PostgreSQL cannot store; infinities are refused.

    JSON escapes a NUL; PostgreSQL stores the escape and then fails to read it as text.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return clean_text(_NUL.sub("\\1\u2400", text))


def open_engine(url: str) -> Engine:
    """Open the database at ``url``, for example ``sqlite:///artifacts/reporting.sqlite``.

    Raises Text2SqlError for an invalid URL and for an SQLite file with other tables.
    """
    parsed = parse_url(url)
    _log.debug("reporting database %s", shown(parsed))
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, Path(str(parsed.database)))
    engine = sa.create_engine(
        parsed,
        json_serializer=_to_json,
        pool_pre_ping=True,
        client_encoding="utf8",  # a database without an encoding would return bytes
        isolation_level="READ COMMITTED",  # stricter levels make writers fail each other
        connect_args={"prepare_threshold": None},  # poolers switch connections in between
    )

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, record: Any) -> None:
        connection.autocommit = True
        # The driver reads instants in ISO form only, whatever the role's own style is.
        connection.execute("SET DateStyle TO ISO")
        connection.autocommit = False

    return engine


def _open_sqlite(url: URL, file: Path) -> Engine:
    _refuse_occupied(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Text2SqlError(
            f"The folder of {file} cannot be created: {error.strerror or error}."
        ) from error
    engine = sa.create_engine(
        url, json_serializer=_to_json, connect_args={"timeout": _BUSY_SECONDS}
    )

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy begins the transactions
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_mode = WAL")  # readers and a writer do not wait

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that will write takes the lock first: if it read first and another one
        # wrote in between, SQLite would fail it without waiting.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _refuse_occupied(file: Path) -> None:
    """Raise Text2SqlError for a file with other tables, before anything in it is changed."""
    if not file.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as found:
            tables = found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            names = {name for (name,) in tables}
    except sqlite3.DatabaseError:
        return  # SQLAlchemy will report what is wrong
    if names and not names >= _OWN_TABLES:
        some = ", ".join(sorted(names)[:3])
        raise Text2SqlError(
            f"{file} has other tables ({some}): it may be a database that questions are about;"
            " give the reports their own file."
        )


@contextmanager
def naming_row(what: str) -> Iterator[None]:
    """Name an invalid row, which somebody edited by hand, as Text2SqlError."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise Text2SqlError(f"{what} is invalid: {error}") from error


def wait_for_others(connection: Connection, lock: int) -> None:
    """Let one transaction at a time hold ``lock``; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))


@dataclass(frozen=True)
class Owners:
    """The current role, its schema with its owner, and the owner of the tables in it.

    ``logs_in``: the schema's owner is a role made for the tables, as in docs/reports.md, and not
    a superuser or a role that nobody logs in with, such as the owner of PostgreSQL's ``public``.
    """

    role: str
    schema: str
    schema_owner: str
    logs_in: bool
    tables_owner: str

    @property
    def mismatch(self) -> bool:
        """Whether another role than the schema's owner made the tables."""
        return self.logs_in and self.schema_owner != self.tables_owner

    def advice(self) -> str:
        """Return who owns the tables, who should, and where the statements to fix it are."""
        return (
            f"the tables belong to the role {self.tables_owner}, which made them, and the schema"
            f" {self.schema} to {self.schema_owner}: only {self.tables_owner} can upgrade them,"
            f" until an administrator gives them to {self.schema_owner},"
            ' see "Tables that the wrong role owns" in docs/reports.md'
        )


def table_owners(engine: Engine) -> Owners | None:
    """Return who owns the tables; None on SQLite and if the role finds no tables."""
    if engine.dialect.name != "postgresql":
        return None
    with engine.connect() as connection:
        row = connection.execute(sa.text(_OWNERS)).one_or_none()
    return Owners(**row._mapping) if row else None


def _missing_right(engine: Engine) -> str:
    """Return what to do when the server refused a right to the role in the URL."""
    try:
        owners = table_owners(engine)
    except DBAPIError:
        owners = None
    if owners is not None and owners.mismatch:
        return owners.advice()
    needs = f"the role {owners.role if owners else 'in the URL'} needs that right"
    if owners is not None and owners.role != owners.tables_owner:
        needs += f", or {owners.tables_owner}, which owns the tables, must do this"
    return f"{needs}: see PostgreSQL in docs/reports.md"
