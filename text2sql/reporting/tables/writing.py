"""Storing an answer inside its transaction, and the view per question that shows its rows."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from text2sql.common.render import quoted
from text2sql.errors import Text2SqlError
from text2sql.judge.equality import alike
from text2sql.reporting.model.answer import AnswerStatus, Change, NewAnswer
from text2sql.reporting.model.values import Column, free_name, safe_name
from text2sql.reporting.tables import schema as tables

ERROR_CHARS = 2000
MOST_COLUMNS = 1500
"""Columns of an answer that its view has: PostgreSQL allows 1,600 in all, SQLite 2,000."""
_VIEW_SECONDS = 10
"""How long to wait for a view that somebody reads."""
_OF_QUESTION = ("question", "evidence", "database", "minimum_share", "verified_sql")
_OF_ANSWER = (
    *("scheduled_at", "status", "sql", "digest", "share", "votes", "tie", "verified", "seconds"),
    *("database_fingerprint", "policy", "policy_revision", "prompt_revision", "training_run"),
    *("dagster_run_id", "code_version"),
)
_answers = tables.answers
_log = logging.getLogger(__name__)
# The columns that every view has beside the answer's own.
_ABOUT = (("answer_id", "id"), ("answer_scheduled_at", "scheduled_at"), ("answer_share", "share"))

# How to read the cell ``{name}`` of each type, a JSON scalar. SQLite would read the text 'Infinity'
# as 0.0, and has no NaN: there it is NULL.
_SQLITE_CELL = "json_extract(r.cells, '$.\"{name}\"')"
_SQLITE_TYPES = {
    "integer": f"CAST({_SQLITE_CELL} AS INTEGER)",
    "real": f"CASE {_SQLITE_CELL} WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999"
    f" WHEN 'NaN' THEN NULL ELSE CAST({_SQLITE_CELL} AS REAL) END",
    "text": f"CAST({_SQLITE_CELL} AS TEXT)",
    "blob": f"CAST({_SQLITE_CELL} AS TEXT)",
}
# A view that could not be replaced reads the cells of later answers too: there, text in a column
# of numbers is NULL. An integer without a mark has at most 16 digits (``values``).
_CELL, _MARK = "(r.cells ->> '{name}')", "(r.marks ->> '{name}')"
_POSTGRESQL_TYPES = {
    "integer": f"CASE WHEN {_CELL} ~ '^-?[0-9]{{{{1,18}}}}$' OR {_MARK} = 'integer'"
    f" THEN CAST({_CELL} AS bigint) END",
    "real": "CASE WHEN json_typeof(r.cells -> '{name}') = 'number'"
    f" OR {_MARK} IN ('integer', 'float') THEN CAST({_CELL} AS double precision) END",
    "text": _CELL,
    "blob": _CELL,
}


def write_answer(connection: Connection, answer: NewAnswer) -> None:
    """Store an answer with its rows and sampled queries, and refresh what depends on it.

    Writers of the same question wait for each other; Text2SqlError if it is not in the tables.
    """
    id, at, columns = answer.question.id, answer.scheduled_at, tables.questions.c
    locked = sa.select(columns.id).where(columns.id == id).with_for_update()
    if connection.scalar(locked) is None:
        raise Text2SqlError(f"question {id!r} is not in the reporting tables")
    mine = sa.and_(_answers.c.question_id == id, _answers.c.scheduled_at == at)
    attempts = _answers.c.attempts + 1
    before = connection.scalar(sa.select(_answers.c.status).where(mine))
    if answer.status == AnswerStatus.ERROR and before == AnswerStatus.ANSWERED:
        # The published answer stays: it is still true, and views show it.
        error = {"error": answer.error[:ERROR_CHARS], "updated_at": datetime.now(UTC)}
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
        asdict(query) | {"digest": query.digest or None, "error": query.error[:ERROR_CHARS] or None}
        for query in answer.queries
    ]
    _write_rows(connection, tables.candidates, answer_id, queries)
    _mark_changes(connection, answer)
    _refresh_view(connection, id)


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
        "error": answer.error[:ERROR_CHARS] or None,
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


def _refresh_view(connection: Connection, question_id: str) -> None:
    """Give the question's view the columns of the latest published answer.

    Recreates a view that somebody dropped. PostgreSQL refuses to replace a view that another view
    reads, and waits while somebody reads it: then the old one stays, which reads cells by name,
    with a warning in the log. The next answer tries again.
    """
    columns = connection.scalar(
        sa.select(_answers.c.columns)
        .where(_answers.c.question_id == question_id, _answers.c.status == AnswerStatus.ANSWERED)
        .order_by(_answers.c.scheduled_at.desc())
        .limit(1)
    )
    table = tables.questions
    about = sa.select(table.c.view_name, table.c.view_columns).where(table.c.id == question_id)
    try:
        view, current = connection.execute(about).one()
    except ValueError as error:
        raise Text2SqlError(f"invalid view_columns: {error}") from error
    if columns is None or (columns == current and _exists(connection, view)):
        return
    shown = [Column(**column) for column in columns]
    try:
        with connection.begin_nested():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_VIEW_SECONDS}s'")
            replace_view(connection, view, question_id, shown)
            mine = sa.update(table).where(table.c.id == question_id)
            connection.execute(mine.values(view_columns=columns))
    except DBAPIError as error:
        _log.warning("view %s keeps its columns: %s", view, error.orig)


def free_view_name(connection: Connection, question_id: str, taken: Collection[str]) -> str:
    """Return a name for a question's view that no other view or table has, whoever made it.

    If the usual name is taken (``a_b`` by ``a-b``), a hash of the id follows it.
    """
    name = f"answer_{safe_name(question_id)}"
    if name not in (*taken, *tables.metadata.tables) and not _exists(connection, name):
        return name
    return f"{name}_{hashlib.sha256(question_id.encode()).hexdigest()[:6]}"


def _exists(connection: Connection, name: str) -> bool:
    """Whether a view or a table has this name."""
    return sa.inspect(connection).has_table(name)


def replace_view(
    connection: Connection, view: str, question_id: str, columns: Sequence[Column]
) -> None:
    """Make the view of a question show its latest published answer with these columns.

    Cells are read by name: a column that a later answer lacks is NULL. The view has at most the
    first ``MOST_COLUMNS`` columns.
    """
    # Nothing here can end a name or a string: columns are letters, digits and ``_``
    # (``values.safe_name``), ``ReportQuestion`` checks the id, and the view's name, which a person
    # may have edited, is quoted.
    typed = _POSTGRESQL_TYPES if connection.dialect.name == "postgresql" else _SQLITE_TYPES
    shown = [
        f'{typed[column.type].format(name=column.name)} AS "{column.name}"'
        for column in columns[:MOST_COLUMNS]
    ]
    taken = [column.name for column in columns[:MOST_COLUMNS]]
    for label, source in _ABOUT:
        shown.append(f'a.{source} AS "{free_name(label, taken)}"')
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {quoted(view)}")
    connection.exec_driver_sql(
        f"CREATE VIEW {quoted(view)} AS SELECT {', '.join(shown)}"
        " FROM answers a JOIN answer_rows r ON r.answer_id = a.id WHERE a.id = ("
        f"SELECT b.id FROM answers b WHERE b.question_id = '{question_id}'"
        " AND b.status = 'answered' ORDER BY b.scheduled_at DESC LIMIT 1)"
        " ORDER BY r.position"
    )


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
