"""Whether a question is still asked, in the view of latest answers."""

from alembic import op

revision = "0004"
down_revision = "0003"

LATEST_ANSWERS = """
VIEW latest_answers AS
SELECT a.question_id, q.view_name, a.question, a.scheduled_at, a.status, a.change, a.share,
       a.row_count, a.sql, a.policy, a.policy_revision, a.training_run, a.dagster_run_id,
       a.error, a.updated_at, a.verified, q.enabled
FROM answers a JOIN questions q ON q.id = a.question_id
WHERE a.scheduled_at = (
    SELECT max(b.scheduled_at) FROM answers b WHERE b.question_id = a.question_id
)
"""


def upgrade() -> None:
    """Add a column at the view's end; what reads the view, and who may, stays as it is.

    The questions' own views are made anew with the next answer: those of earlier versions show NULL
    for a value of another type.
    """
    op.execute("UPDATE questions SET view_columns = NULL")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"CREATE OR REPLACE {LATEST_ANSWERS}")
        return
    op.execute("DROP VIEW IF EXISTS latest_answers")
    op.execute(f"CREATE {LATEST_ANSWERS}")
