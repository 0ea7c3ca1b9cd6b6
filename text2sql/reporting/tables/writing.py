"""Storing one answer: what happens inside its transaction."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from text2sql.errors import Text2SqlError
from text2sql.judge.equality import same
from text2sql.reporting.model.answer import Answer, AnswerCandidate, AnswerStatus, Change
from text2sql.reporting.model.values import Column
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.upserts import upsert
from text2sql.reporting.tables.views import is_there, replace_view

ERROR_CHARS = 2000
_VIEW_SECONDS = 10
"""How long a view that somebody reads is waited for."""
_answers = tables.answers
_log = logging.getLogger(__name__)


def write_answer(connection: Connection, answer: Answer) -> None:
    """Store an answer with its rows and candidates, and refresh what depends on it.

    Writers of the same question wait for each other; Text2SqlError if it is not in the tables.
    """
    _lock_question(connection, answer.question.id)
    if answer.status == AnswerStatus.ERROR and _is_published(connection, answer):
        _note_error(connection, answer)
        return
    row = _answer_row(answer)
    attempts = _answers.c.attempts + 1
    upsert(connection, _answers, row, keep=["created_at", "attempts"], attempts=attempts)
    answer_id = connection.scalar(sa.select(_answers.c.id).where(*_key(answer)))
    assert answer_id is not None
    _write_rows(connection, answer_id, answer)
    _write_candidates(connection, answer_id, answer.candidates)
    _mark_changes(connection, answer)
    _refresh_view(connection, answer.question.id)


def _lock_question(connection: Connection, question_id: str) -> None:
    table = tables.questions
    query = sa.select(table.c.id).where(table.c.id == question_id).with_for_update()
    if connection.scalar(query) is None:
        raise Text2SqlError(f"question {question_id!r} is not in the reporting tables")


def _key(answer: Answer) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return (
        _answers.c.question_id == answer.question.id,
        _answers.c.scheduled_at == answer.scheduled_at,
    )


def _is_published(connection: Connection, answer: Answer) -> bool:
    status = connection.scalar(sa.select(_answers.c.status).where(*_key(answer)))
    return status == AnswerStatus.ANSWERED


def _note_error(connection: Connection, answer: Answer) -> None:
    values = {
        "attempts": _answers.c.attempts + 1,
        "error": answer.error[:ERROR_CHARS],
        "updated_at": datetime.now(UTC),
    }
    connection.execute(sa.update(_answers).where(*_key(answer)).values(values))


def _answer_row(answer: Answer) -> dict[str, Any]:
    now = datetime.now(UTC)
    question, table = answer.question, answer.table
    return {
        "question_id": question.id,
        "scheduled_at": answer.scheduled_at,
        "status": answer.status,
        "change": None,
        "sql": answer.sql,
        "columns": None if table is None else [column.to_dict() for column in table.columns],
        "row_count": None if table is None else table.total,
        "rows_kept": None if table is None else len(table.rows),
        "digest": answer.digest or None,
        "share": answer.share,
        "votes": answer.votes,
        "candidates": question.votes,
        "minimum_share": question.minimum_share,
        "tie": answer.tie,
        "error": answer.error[:ERROR_CHARS] or None,
        "verified": answer.verified,
        "verified_sql": question.verified_sql,
        "expectations": question.expectations.to_dict() or None,
        "question": question.question,
        "evidence": question.evidence,
        "database": question.database,
        "database_fingerprint": answer.database_fingerprint or None,
        "policy": answer.policy or None,
        "policy_revision": answer.policy_revision or None,
        "prompt_revision": answer.prompt_revision or None,
        "training_run": answer.training_run or None,
        "sampling": answer.sampling or None,
        "attempts": 1,
        "prompt_tokens": sum(c.prompt_tokens for c in answer.candidates),
        "completion_tokens": sum(c.completion_tokens for c in answer.candidates),
        "seconds": answer.seconds,
        "dagster_run_id": answer.dagster_run_id or None,
        "code_version": answer.code_version or None,
        "created_at": now,
        "updated_at": now,
    }


def _write_rows(connection: Connection, answer_id: int, answer: Answer) -> None:
    table = tables.answer_rows
    connection.execute(sa.delete(table).where(table.c.answer_id == answer_id))
    if answer.table is None or not answer.table.rows:
        return
    rows = [
        {"answer_id": answer_id, "position": position, "cells": cells, "marks": marks}
        for position, (cells, marks) in enumerate(
            zip(answer.table.rows, answer.table.marks, strict=True)
        )
    ]
    connection.execute(sa.insert(table), rows)


def _write_candidates(
    connection: Connection, answer_id: int, candidates: tuple[AnswerCandidate, ...]
) -> None:
    table = tables.candidates
    connection.execute(sa.delete(table).where(table.c.answer_id == answer_id))
    rows = [
        asdict(candidate)
        | {"answer_id": answer_id, "position": position}
        | {"digest": candidate.digest or None, "error": candidate.error[:ERROR_CHARS] or None}
        for position, candidate in enumerate(candidates)
    ]
    if rows:
        connection.execute(sa.insert(table), rows)


def _mark_changes(connection: Connection, answer: Answer) -> None:
    """Say what changed in the published answer and in the one after it (there is one after a
    backfill of an earlier day)."""
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
        change = _change(old, new)
        connection.execute(sa.update(_answers).where(_answers.c.id == new.id).values(change=change))


def _change(old: sa.Row[Any] | None, new: sa.Row[Any]) -> Change:
    if old is None:
        return Change.FIRST
    if same(old.digest, new.digest, "multiset"):
        return Change.SAME if old.sql == new.sql else Change.SQL_CHANGED
    return Change.DATA_CHANGED if old.sql == new.sql else Change.BOTH


def _refresh_view(connection: Connection, question_id: str) -> None:
    """Give the question's view the columns of the latest published answer.

    A view that somebody dropped is made again. PostgreSQL refuses to replace a view that another
    view reads, and waits as long as somebody reads it: the old one then stays, which reads cells
    by name, and the log says so. The next answer tries again.
    """
    columns = connection.scalar(
        sa.select(_answers.c.columns)
        .where(_answers.c.question_id == question_id, _answers.c.status == AnswerStatus.ANSWERED)
        .order_by(_answers.c.scheduled_at.desc())
        .limit(1)
    )
    view, current = _view_of(connection, question_id)
    if columns is None or (columns == current and is_there(connection, view)):
        return
    shown = [Column(**column) for column in columns]
    try:
        with connection.begin_nested():
            _wait_at_most(connection, _VIEW_SECONDS)
            replace_view(connection, view, question_id, shown)
            mine = sa.update(tables.questions).where(tables.questions.c.id == question_id)
            connection.execute(mine.values(view_columns=columns))
    except DBAPIError as error:
        _log.warning("view %s is not made anew and stays as it is: %s", view, error.orig)


def _view_of(connection: Connection, question_id: str) -> tuple[str, Any]:
    """Return the name of a question's view, and the columns that it was made with."""
    table = tables.questions
    query = sa.select(table.c.view_name, table.c.view_columns).where(table.c.id == question_id)
    try:
        found = connection.execute(query).one()
    except ValueError as error:
        raise Text2SqlError(f"its view_columns make no sense: {error}") from error
    return found.view_name, found.view_columns


def _wait_at_most(connection: Connection, seconds: float) -> None:
    """Let the rest of a PostgreSQL transaction wait no longer than that for what others hold."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{seconds}s'")
