"""The versions of the reporting tables, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from reporting_databases import postgresql_server, reporting_url

from text2sql.reporting import tables
from text2sql.reporting.migrating import NEWEST, VERSION_TABLE
from text2sql.reporting.store import ReportingStore

__all__ = ["postgresql_server", "reporting_url"]


def test_the_steps_make_what_the_code_uses(reporting_url):
    with ReportingStore(reporting_url) as store, store.engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, tables.metadata) == []
        version = sa.table(VERSION_TABLE, sa.column("version_num"))
        assert connection.scalar(sa.select(version)) == NEWEST
