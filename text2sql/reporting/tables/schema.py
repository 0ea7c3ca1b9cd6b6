"""The reporting tables as the code uses them; a test compares them with the migrations' result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from text2sql.reporting.model.values import clean_text

LATEST_ANSWERS = "latest_answers"
LATEST_ANSWERS_COLUMNS = (
    *("question_id", "view_name", "question", "scheduled_at", "status", "change", "share"),
    *("row_count", "sql", "policy", "policy_revision", "training_run", "dagster_run_id"),
    *("error", "updated_at", "verified", "enabled"),
)
"""The view's columns in order: those of ``answers``, and of the question the name of its view and
whether it is enabled.

Migrations only add columns at the end, because other views may read this one.
"""


class Instant(TypeDecorator[datetime]):
    """An instant, stored in UTC and read back with its zone; a naive time is refused.

    SQLite has no time zones: it stores the UTC wall clock.
    """

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone: reporting tables store instants")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return an aware time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Text stored verbatim, except for the characters that PostgreSQL cannot store."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace NUL characters and lone surrogates."""
        return None if value is None else clean_text(value)


_JSON = sa.JSON(none_as_null=True)  # None is SQL's NULL, not the text ``null``


def _answer_key() -> sa.Column[int]:
    key = sa.ForeignKey("answers.id", ondelete="CASCADE")
    return sa.Column("answer_id", sa.Integer, key, primary_key=True)


metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

questions = sa.Table(
    "questions",
    metadata,
    sa.Column("id", Words, primary_key=True),
    sa.Column("question", Words, nullable=False),
    sa.Column("database", Words, nullable=False),
    sa.Column("evidence", Words, nullable=False),
    sa.Column("votes", sa.Integer, nullable=False),
    sa.Column("minimum_share", sa.Float, nullable=False),
    sa.Column("time_zone", Words, nullable=False),
    sa.Column("schedule_group", Words, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("view_name", Words, nullable=False, unique=True),
    sa.Column("view_columns", _JSON),  # the columns that the view has now
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("owner", Words, nullable=False, server_default=sa.text("''")),
    sa.Column("verified_sql", Words),  # a person's SQL that each answer is compared with
    sa.Column("expectations", _JSON),
    sa.Column("seed", _JSON),  # the fields in the file at its last import
    sa.Column("seed_file", Words),
)

# A row for each question and scheduled instant. The question is copied, so that an answer can be
# read and replayed after its question was edited.
answers = sa.Table(
    "answers",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("question_id", Words, sa.ForeignKey("questions.id"), nullable=False),
    sa.Column("scheduled_at", Instant, nullable=False),
    sa.Column("status", Words, nullable=False),
    sa.Column("change", Words),  # first, same, data_changed, sql_changed or both
    sa.Column("sql", Words),  # what was published; null without an answer
    sa.Column("columns", _JSON),
    sa.Column("row_count", sa.Integer),  # rows of the result
    sa.Column("rows_kept", sa.Integer),  # rows in answer_rows
    sa.Column("digest", Words),  # of the result as a multiset of rows
    sa.Column("share", sa.Float),  # of the candidates that agree on the result
    sa.Column("votes", sa.Integer),  # candidates that agree on the result
    sa.Column("candidates", sa.Integer, nullable=False),  # candidates that were asked for
    sa.Column("minimum_share", sa.Float, nullable=False),
    sa.Column("tie", sa.Boolean, nullable=False),
    sa.Column("error", Words),
    sa.Column("question", Words, nullable=False),
    sa.Column("evidence", Words, nullable=False),
    sa.Column("database", Words, nullable=False),
    sa.Column("database_fingerprint", Words),
    sa.Column("policy", Words),
    sa.Column("policy_revision", Words),
    sa.Column("prompt_revision", Words),
    sa.Column("training_run", Words),
    sa.Column("sampling", _JSON),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("prompt_tokens", sa.Integer, nullable=False),
    sa.Column("completion_tokens", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("dagster_run_id", Words),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("verified_sql", Words),  # the question's at that time
    sa.Column("verified", Words),  # match, differs or error; null if nothing was compared
    sa.Column("code_version", Words),
    sa.Column("expectations", _JSON),  # the question's at that time
    sa.UniqueConstraint("question_id", "scheduled_at"),
    sa.Index(None, "scheduled_at"),
)

answer_rows = sa.Table(
    "answer_rows",
    metadata,
    _answer_key(),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("cells", _JSON, nullable=False),  # an object: safe column name to scalar
    sa.Column("marks", _JSON),  # safe column name to what the scalar stands for
)

candidates = sa.Table(
    "candidates",
    metadata,
    _answer_key(),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("sql", Words),
    sa.Column("status", Words, nullable=False),
    sa.Column("digest", Words),  # of the result as a set of rows: equal digests vote together
    sa.Column("row_count", sa.Integer),
    sa.Column("voted", sa.Boolean, nullable=False),
    sa.Column("chosen", sa.Boolean, nullable=False),  # in the group that won
    sa.Column("turns", sa.Integer, nullable=False),
    sa.Column("prompt_tokens", sa.Integer, nullable=False),
    sa.Column("completion_tokens", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("error", Words),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", Words, primary_key=True),
    sa.Column("day", Words, primary_key=True),
    sa.Column("policy", Words),
    sa.Column("policy_revision", Words),
    sa.Column("training_run", Words),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    sa.Column("asked", sa.Integer),
    sa.Column("answered", sa.Integer),
    sa.Column("failed", sa.Integer),
    sa.Column("reused", sa.Integer),
)

# What was sent: a row for each day, channel and content, so that a repeated run sends nothing
# twice. A webhook's address may contain a secret: ``target`` is a hash.
deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("day", Words, primary_key=True),
    sa.Column("channel", Words, primary_key=True),  # webhook or mail
    sa.Column("target", Words, primary_key=True),
    sa.Column("content", Words, primary_key=True),  # digest of the message
    sa.Column("status", Words, nullable=False),  # sending, sent or failed
    sa.Column("error", Words),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("claimed_at", Instant, nullable=False),
    sa.Column("sent_at", Instant),
)
