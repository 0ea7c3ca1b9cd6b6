"""Alembic's entry point: runs the steps on the connection it gets, in its transaction."""

from alembic import context

from text2sql.reporting.tables.migrating import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
