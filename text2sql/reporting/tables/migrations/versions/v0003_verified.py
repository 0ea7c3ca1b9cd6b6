"""What verified SQL said of each question's latest answer, in the view of latest answers."""

from alembic import op

revision = "0003"
down_revision = "0002"

LATEST_ANSWERS = """
VIEW latest_answers AS
SELECT a.question_id, q.view_name, a.question, a.scheduled_at, a.status, a.change, a.share,
       a.row_count, a.sql, a.policy, a.policy_revision, a.training_run, a.dagster_run_id,
       a.error, a.updated_at, a.verified
FROM answers a JOIN questions q ON q.id = a.question_id
WHERE a.scheduled_at = (
    SELECT max(b.scheduled_at) FROM answers b WHERE b.question_id = a.question_id
)
"""


def upgrade() -> None:
    """Add a column at the view's end; what reads the view, and who may, stays as it is.

    PostgreSQL replaces a view in place where columns are only added at its end. SQLite looks at
    what a view reads when it is read, so there it can be dropped and made again.
    """
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"CREATE OR REPLACE {LATEST_ANSWERS}")
        return
    op.execute("DROP VIEW IF EXISTS latest_answers")
    op.execute(f"CREATE {LATEST_ANSWERS}")
