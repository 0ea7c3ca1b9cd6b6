"""Bringing the reporting tables to the version that this code works with."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.database import wait_for_others
from text2sql.reporting.tables.schema import LATEST_ANSWERS
from text2sql.reporting.tables.urls import shown

NEWEST = "0003"
"""The version that this code works with: the highest number in ``migrations/versions``."""
VERSION_TABLE = "reporting_version"
_LOCK = 7_418_235_001
"""PostgreSQL's advisory lock of those that change the tables."""


@dataclass(frozen=True)
class SchemaStatus:
    """Which version the tables have (``found``, None without any) and which the code needs.

    ``lacks_view`` says that they have it and that somebody dropped the view of latest answers.
    """

    found: str | None
    needed: str = NEWEST
    lacks_view: bool = False

    @property
    def current(self) -> bool:
        """Whether the tables have the version that is needed."""
        return self.found == self.needed

    @property
    def complete(self) -> bool:
        """Whether there is nothing to do."""
        return self.current and not self.lacks_view

    @property
    def newer(self) -> bool:
        """Whether the tables were made by a newer release."""
        return self.found is not None and self.found > self.needed


def schema_status(engine: Engine) -> SchemaStatus:
    """Read which version the tables have."""
    with engine.connect() as connection:
        return _status(connection)


def upgrade(engine: Engine) -> SchemaStatus:
    """Bring the tables to the newest version in one transaction; return what was found before.

    A view of latest answers that somebody dropped is made again.

    ``engine`` is a database's ``writer``. Processes that do it at once wait for each other.
    Raises Text2SqlError for tables of a newer release and for tables of something else.
    """
    with engine.begin() as connection:
        wait_for_others(connection, _LOCK)
        before = _status(connection)
        refuse_newer(before, _name(engine))
        if before.lacks_view:
            _make_view(connection)
        elif not before.current:
            _run_steps(connection)
    return before


def require_current(engine: Engine) -> None:
    """Make sure that the tables have the newest version: upgrade SQLite, refuse PostgreSQL.

    A server's tables have an owner who decides when they change: Text2SqlError names the command.
    """
    status = schema_status(engine)
    refuse_newer(status, _name(engine))
    if engine.dialect.name == "sqlite" and not status.complete:
        upgrade(engine)
        return
    if status.current:
        return
    what = f"has version {status.found}" if status.found else "has no counted version yet"
    raise Text2SqlError(
        f"the reporting database {_name(engine)} {what}, and version {NEWEST} is needed: run"
        " text2sql reporting upgrade, with the role that owns the tables or is to own them"
    )


def refuse_newer(status: SchemaStatus, name: str) -> None:
    """Raise Text2SqlError for tables that were made by a newer release."""
    if status.newer:
        raise Text2SqlError(
            f"the reporting database {name} has version {status.found}, which is newer than"
            f" {NEWEST}, the newest that this release of text2sql knows: install a newer release"
        )


def _status(connection: Connection) -> SchemaStatus:
    there = sa.inspect(connection).has_table
    if not there(VERSION_TABLE):
        return SchemaStatus(None)
    found = _version(connection)
    return SchemaStatus(found, lacks_view=found == NEWEST and not there(LATEST_ANSWERS))


def _version(connection: Connection) -> str | None:
    """Return the version that is noted; raise Text2SqlError where the table is somebody else's."""
    column: sa.ColumnClause[str] = sa.column("version_num")
    if column.name in (one["name"] for one in sa.inspect(connection).get_columns(VERSION_TABLE)):
        found = connection.scalar(sa.select(sa.table(VERSION_TABLE, column)))
        if isinstance(found, str | None):
            return found
    raise Text2SqlError(
        f"the table {VERSION_TABLE} in {_name(connection.engine)} is none of text2sql's, which"
        " notes its version there: give the reports a database or a schema of their own"
    )


def _make_view(connection: Connection) -> None:
    from text2sql.reporting.tables.migrations.versions import v0003_verified

    connection.exec_driver_sql(f"CREATE {v0003_verified.LATEST_ANSWERS}")


def _run_steps(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "text2sql.reporting.tables:migrations")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:  # a version that no release has made
        raise Text2SqlError(
            f"the version in {VERSION_TABLE} is none that a release made: {error}"
        ) from error


def _name(engine: Engine) -> str:
    return shown(engine.url)
