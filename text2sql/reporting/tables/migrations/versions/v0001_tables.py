"""The tables as they were before their versions were counted; what is there is adopted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from text2sql.errors import Text2SqlError

revision = "0001"
down_revision = None

INSTANT = sa.DateTime(timezone=True)
metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

sa.Table(
    "questions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("database", sa.Text, nullable=False),
    sa.Column("evidence", sa.Text, nullable=False),
    sa.Column("votes", sa.Integer, nullable=False),
    sa.Column("minimum_share", sa.Float, nullable=False),
    sa.Column("time_zone", sa.Text, nullable=False),
    sa.Column("schedule_group", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("view_name", sa.Text, nullable=False, unique=True),
    sa.Column("view_columns", sa.JSON),
    sa.Column("created_at", INSTANT, nullable=False),
    sa.Column("updated_at", INSTANT, nullable=False),
)
sa.Table(
    "answers",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("question_id", sa.Text, sa.ForeignKey("questions.id"), nullable=False),
    sa.Column("scheduled_at", INSTANT, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("change", sa.Text),
    sa.Column("sql", sa.Text),
    sa.Column("columns", sa.JSON),
    sa.Column("row_count", sa.Integer),
    sa.Column("rows_kept", sa.Integer),
    sa.Column("digest", sa.Text),
    sa.Column("share", sa.Float),
    sa.Column("votes", sa.Integer),
    sa.Column("candidates", sa.Integer, nullable=False),
    sa.Column("minimum_share", sa.Float, nullable=False),
    sa.Column("tie", sa.Boolean, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("evidence", sa.Text, nullable=False),
    sa.Column("database", sa.Text, nullable=False),
    sa.Column("database_fingerprint", sa.Text),
    sa.Column("policy", sa.Text),
    sa.Column("policy_revision", sa.Text),
    sa.Column("prompt_revision", sa.Text),
    sa.Column("training_run", sa.Text),
    sa.Column("sampling", sa.JSON),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("prompt_tokens", sa.Integer, nullable=False),
    sa.Column("completion_tokens", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("dagster_run_id", sa.Text),
    sa.Column("created_at", INSTANT, nullable=False),
    sa.Column("updated_at", INSTANT, nullable=False),
    sa.UniqueConstraint("question_id", "scheduled_at"),
    sa.Index(None, "scheduled_at"),
)
sa.Table(
    "answer_rows",
    metadata,
    sa.Column(
        "answer_id", sa.Integer, sa.ForeignKey("answers.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("cells", sa.JSON, nullable=False),
    sa.Column("marks", sa.JSON),
)
sa.Table(
    "candidates",
    metadata,
    sa.Column(
        "answer_id", sa.Integer, sa.ForeignKey("answers.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("sql", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("digest", sa.Text),
    sa.Column("row_count", sa.Integer),
    sa.Column("voted", sa.Boolean, nullable=False),
    sa.Column("chosen", sa.Boolean, nullable=False),
    sa.Column("turns", sa.Integer, nullable=False),
    sa.Column("prompt_tokens", sa.Integer, nullable=False),
    sa.Column("completion_tokens", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("error", sa.Text),
)
sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("day", sa.Text, primary_key=True),
    sa.Column("policy", sa.Text),
    sa.Column("policy_revision", sa.Text),
    sa.Column("training_run", sa.Text),
    sa.Column("started_at", INSTANT, nullable=False),
    sa.Column("finished_at", INSTANT),
    sa.Column("asked", sa.Integer),
    sa.Column("answered", sa.Integer),
    sa.Column("failed", sa.Integer),
    sa.Column("reused", sa.Integer),
)

LATEST_ANSWERS = """
CREATE VIEW latest_answers AS
SELECT a.question_id, q.view_name, a.question, a.scheduled_at, a.status, a.change, a.share,
       a.row_count, a.sql, a.policy, a.policy_revision, a.training_run, a.dagster_run_id,
       a.error, a.updated_at
FROM answers a JOIN questions q ON q.id = a.question_id
WHERE a.scheduled_at = (
    SELECT max(b.scheduled_at) FROM answers b WHERE b.question_id = a.question_id
)
"""
LATEST_COLUMNS = (
    *("question_id", "view_name", "question", "scheduled_at", "status", "change", "share"),
    *("row_count", "sql", "policy", "policy_revision", "training_run", "dagster_run_id"),
    *("error", "updated_at"),
)


def upgrade() -> None:
    """Create what is missing; refuse tables of somebody else that have the same names."""
    connection = op.get_bind()
    inspector = sa.inspect(connection)
    for table in metadata.sorted_tables:
        if not is_own(inspector, table.name, [column.name for column in table.columns]):
            table.create(connection, checkfirst=False)
    if not is_own(inspector, "latest_answers", LATEST_COLUMNS):
        op.execute(LATEST_ANSWERS)


def is_own(inspector: sa.Inspector, name: str, columns: Sequence[str]) -> bool:
    """Say whether a table or view is there already; refuse one of somebody else.

    PostgreSQL makes tables in the first schema of the search path: what others have in the next
    ones is in nobody's way.
    """
    schema = inspector.default_schema_name
    if not inspector.has_table(name, schema):
        return False
    found = {column["name"] for column in inspector.get_columns(name, schema)}
    if lacking := [column for column in columns if column not in found]:
        raise Text2SqlError(
            f"The table or view {name!r} that is there has no column {', '.join(lacking)}: it is"
            " not one of the reports; give them a database or a schema of their own."
        )
    return True
