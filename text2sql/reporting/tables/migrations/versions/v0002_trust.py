"""Who owns a question and what is expected of its answer; what was delivered to whom."""

import sqlalchemy as sa
from alembic import op

from text2sql.reporting.tables.migrations.versions.v0001_tables import is_own

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add columns and a table; questions that are there have no owner and no expectations."""
    owner = sa.Column("owner", sa.Text, nullable=False, server_default=sa.text("''"))
    op.add_column("questions", owner)
    op.add_column("questions", sa.Column("verified_sql", sa.Text))
    op.add_column("questions", sa.Column("expectations", sa.JSON))
    op.add_column("questions", sa.Column("seed", sa.JSON))
    op.add_column("questions", sa.Column("seed_file", sa.Text))
    op.add_column("answers", sa.Column("verified_sql", sa.Text))
    op.add_column("answers", sa.Column("verified", sa.Text))
    op.add_column("answers", sa.Column("code_version", sa.Text))
    op.add_column("answers", sa.Column("expectations", sa.JSON))
    # The next answer makes its question's view anew: views read cells more carefully now.
    op.execute("UPDATE questions SET view_columns = NULL")
    _create_deliveries()


def _create_deliveries() -> None:
    instant = sa.DateTime(timezone=True)
    if is_own(sa.inspect(op.get_bind()), "deliveries", ["day", "channel", "target", "content"]):
        return
    op.create_table(
        "deliveries",
        sa.Column("day", sa.Text),
        sa.Column("channel", sa.Text),
        sa.Column("target", sa.Text),
        sa.Column("content", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("claimed_at", instant, nullable=False),
        sa.Column("sent_at", instant),
        sa.PrimaryKeyConstraint("day", "channel", "target", "content", name="pk_deliveries"),
    )
