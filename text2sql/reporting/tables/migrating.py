"""Migrating the reporting tables to the version that this code needs."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.database import wait_for_others
from text2sql.reporting.tables.location import plain_name
from text2sql.reporting.tables.schema import LATEST_ANSWERS

NEWEST = "0004"
"""The version that this code needs: the highest number in ``migrations/versions``."""
VERSION_TABLE = "reporting_version"
_LOCK = 7_418_235_001
"""PostgreSQL's advisory lock for migrations."""


@dataclass(frozen=True)
class SchemaStatus:
    """The version of the tables (``found``, None without tables) and the one the code needs.

    ``lacks_view``: the version is right, but somebody dropped the view ``latest_answers``.
    """

    found: str | None
    needed: str = NEWEST
    lacks_view: bool = False

    @property
    def current(self) -> bool:
        """Whether the tables have the version that the code needs."""
        return self.found == self.needed

    @property
    def complete(self) -> bool:
        """Whether nothing needs to be done."""
        return self.current and not self.lacks_view


def schema_status(engine: Engine) -> SchemaStatus:
    """Return the version of the tables."""
    with engine.connect() as connection:
        return _status(connection)


def upgrade(engine: Engine) -> SchemaStatus:
    """Migrate the tables to the newest version in one transaction; return the status before.

    Recreates the view ``latest_answers`` if somebody dropped it. ``engine`` is a database's
    ``writer``; concurrent processes wait for each other. Raises Text2SqlError for tables of a
    newer release or of another program.
    """
    with engine.begin() as connection:
        wait_for_others(connection, _LOCK)
        before = _status(connection)
        refuse_newer(before, plain_name(engine.url))
        if before.lacks_view:
            from text2sql.reporting.tables.migrations.versions import v0004_enabled

            connection.exec_driver_sql(f"CREATE {v0004_enabled.LATEST_ANSWERS}")
        elif not before.current:
            _run_steps(connection)
    return before


def require_current(engine: Engine) -> None:
    """Upgrade an SQLite file to the newest version; refuse older tables on PostgreSQL.

    The owner of a server's tables decides when they change: Text2SqlError names the command.
    """
    status, name = schema_status(engine), plain_name(engine.url)
    refuse_newer(status, name)
    if engine.dialect.name == "sqlite" and not status.complete:
        upgrade(engine)
        return
    if status.current:
        return
    what = f"has version {status.found}" if status.found else "has no numbered version yet"
    raise Text2SqlError(
        f"The reporting database {name} {what}, but version {NEWEST} is needed: run"
        " text2sql reporting upgrade with the role that owns, or should own, the tables."
    )


def refuse_newer(status: SchemaStatus, name: str) -> None:
    """Raise Text2SqlError for tables that a newer release made."""
    if status.found is not None and status.found > status.needed:
        raise Text2SqlError(
            f"The reporting database {name} has version {status.found}, but this release of"
            f" text2sql knows no version above {NEWEST}: install a newer release."
        )


def _status(connection: Connection) -> SchemaStatus:
    """Return the recorded version; raise Text2SqlError if the table is another program's."""
    inspector = sa.inspect(connection)
    if not inspector.has_table(VERSION_TABLE):
        return SchemaStatus(None)
    column: sa.ColumnClause[str] = sa.column("version_num")
    if column.name in (one["name"] for one in inspector.get_columns(VERSION_TABLE)):
        found = connection.scalar(sa.select(sa.table(VERSION_TABLE, column)))
        if isinstance(found, str | None):
            lacks_view = found == NEWEST and not inspector.has_table(LATEST_ANSWERS)
            return SchemaStatus(found, lacks_view=lacks_view)
    raise Text2SqlError(
        f"The table {VERSION_TABLE} in {plain_name(connection.engine.url)} belongs to another"
        " program, but text2sql records its version there: give the reports a database or a schema"
        " of their own."
    )


def _run_steps(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "text2sql.reporting.tables:migrations")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Text2SqlError(
            f"No release of text2sql made the version in {VERSION_TABLE}: {error}."
        ) from error
