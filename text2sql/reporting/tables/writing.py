"""Storing an answer, with its rows and sampled queries, inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from text2sql.errors import Text2SqlError
from text2sql.judge.equality import alike
from text2sql.reporting.model.answer import AnswerStatus, Change, NewAnswer
from text2sql.reporting.model.values import cut
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.views import refresh_view

ERROR_CHARS = 2000
_OF_QUESTION = ("question", "evidence", "database", "minimum_share", "verified_sql")
_OF_ANSWER = (
    *("scheduled_at", "status", "sql", "digest", "share", "votes", "tie", "verified", "seconds"),
    *("database_fingerprint", "policy", "policy_revision", "prompt_revision", "training_run"),
    *("dagster_run_id", "code_version"),
)
_answers = tables.answers


def write_answer(connection: Connection, answer: NewAnswer) -> None:
    """Store an answer with its rows and sampled queries, and refresh what depends on it.

    Writers of the same question wait for each other; Text2SqlError if it is not in the tables.
    """
    id, at, columns = answer.question.id, answer.scheduled_at, tables.questions.c
    locked = sa.select(columns.id).where(columns.id == id).with_for_update()
    if connection.scalar(locked) is None:
        raise Text2SqlError(f"Question {id!r} is not in the reporting tables; add it first.")
    mine = sa.and_(_answers.c.question_id == id, _answers.c.scheduled_at == at)
    attempts = _answers.c.attempts + 1
    before = connection.scalar(sa.select(_answers.c.status).where(mine))
    if answer.status == AnswerStatus.ERROR and before == AnswerStatus.ANSWERED:
        # The published answer stays: it is still true, and views show it.
        error = {"error": cut(answer.error, ERROR_CHARS), "updated_at": datetime.now(UTC)}
        connection.execute(sa.update(_answers).where(mine).values(attempts=attempts, **error))
        return
    key, keep = ["question_id", "scheduled_at"], ["created_at", "attempts"]
    upsert(connection, _answers, _answer_row(answer), key, keep, attempts=attempts)
    answer_id = connection.scalar(sa.select(_answers.c.id).where(mine))
    assert answer_id is not None
    table = answer.table
    kept = zip(table.rows, table.marks, strict=True) if table else ()
    rows = [{"cells": cells, "marks": marks} for cells, marks in kept]
    _write_rows(connection, tables.answer_rows, answer_id, rows)
    queries = [
        asdict(query)
        | {"digest": query.digest or None, "error": cut(query.error, ERROR_CHARS) or None}
        for query in answer.queries
    ]
    _write_rows(connection, tables.candidates, answer_id, queries)
    _mark_changes(connection, answer)
    refresh_view(connection, id)


def _answer_row(answer: NewAnswer) -> dict[str, Any]:
    now = datetime.now(UTC)
    question, table = answer.question, answer.table
    asked = {name: getattr(question, name) for name in _OF_QUESTION}
    # An empty text is stored as NULL: it means that nothing is known.
    found = {name: None if (v := getattr(answer, name)) == "" else v for name in _OF_ANSWER}
    return asked | found | {
        "question_id": question.id,
        "candidates": question.votes,
        "expectations": question.expectations.to_dict() or None,
        "change": None,
        "columns": table and list(map(asdict, table.columns)),
        "row_count": table and table.total,
        "rows_kept": table and len(table.rows),
        "error": cut(answer.error, ERROR_CHARS) or None,
        "sampling": answer.sampling or None,
        "attempts": 1,
        "prompt_tokens": sum(query.prompt_tokens for query in answer.queries),
        "completion_tokens": sum(query.completion_tokens for query in answer.queries),
        "created_at": now,
        "updated_at": now,
    }  # fmt: skip


def _write_rows(
    connection: Connection, table: sa.Table, answer_id: int, rows: list[dict[str, Any]]
) -> None:
    """Replace an answer's rows in the table ``answer_rows`` or ``candidates``."""
    connection.execute(sa.delete(table).where(table.c.answer_id == answer_id))
    for position, row in enumerate(rows):
        row |= {"answer_id": answer_id, "position": position}
    if rows:
        connection.execute(sa.insert(table), rows)


def _mark_changes(connection: Connection, answer: NewAnswer) -> None:
    """Store what changed in the published answer and in the next one, which a backfill has."""
    published = [
        _answers.c.question_id == answer.question.id,
        _answers.c.status == AnswerStatus.ANSWERED,
    ]
    columns = sa.select(_answers.c.id, _answers.c.sql, _answers.c.digest)
    at, instant = _answers.c.scheduled_at, answer.scheduled_at
    before = columns.where(*published, at < instant).order_by(at.desc()).limit(1)
    since = columns.where(*published, at >= instant).order_by(at).limit(2)
    chain = [connection.execute(before).first(), *connection.execute(since)]
    for old, new in pairwise(chain):
        assert new is not None
        if old is None:
            change = Change.FIRST
        elif alike(old.digest, new.digest, "multiset"):
            change = Change.SAME if old.sql == new.sql else Change.SQL_CHANGED
        else:
            change = Change.DATA_CHANGED if old.sql == new.sql else Change.BOTH
        connection.execute(sa.update(_answers).where(_answers.c.id == new.id).values(change=change))


def upsert(
    connection: Connection,
    table: sa.Table,
    row: dict[str, Any],
    key: Sequence[str],
    keep: Sequence[str],
    **changes: sa.ColumnElement[Any],
) -> None:
    """Insert a row or update the one with its key, the same way on SQLite and PostgreSQL.

    ``keep`` names columns that an existing row keeps; ``changes`` are expressions on the
    existing row.
    """
    insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
    update = {name: insert.excluded[name] for name in row if name not in (*key, *keep)}
    connection.execute(
        insert.values(row).on_conflict_do_update(index_elements=key, set_=update | changes)
    )
