"""A view per question: the rows of its latest published answer as typed columns."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from text2sql.common.render import quoted
from text2sql.reporting.model.values import Column, free_name, safe_name
from text2sql.reporting.tables import schema as tables

VIEW_PREFIX = "answer_"
MOST_COLUMNS = 1500
"""Columns of an answer that its view has: PostgreSQL takes 1,600 in all, SQLite 2,000."""
# What every view tells beside the answer's own columns.
_ABOUT = (("answer_id", "id"), ("answer_scheduled_at", "scheduled_at"), ("answer_share", "share"))

# How a cell of each type is read; ``{cell}`` is the stored JSON scalar. SQLite would read the
# text 'Infinity' as 0.0, and has no NaN: there it is NULL.
_SQLITE_TYPES = {
    "integer": "CAST({cell} AS INTEGER)",
    "real": (
        "CASE {cell} WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999"
        " WHEN 'NaN' THEN NULL ELSE CAST({cell} AS REAL) END"
    ),
    "text": "CAST({cell} AS TEXT)",
    "blob": "CAST({cell} AS TEXT)",
}
# A view that could not be replaced reads the cells of later answers too: there, what is no number
# is NULL. An integer without a mark has at most 16 digits (``values``).
_POSTGRESQL_TYPES = {
    "integer": (
        "CASE WHEN {cell} ~ '^-?[0-9]{{1,18}}$' OR {mark} = 'integer'"
        " THEN CAST({cell} AS bigint) END"
    ),
    "real": (
        "CASE WHEN json_typeof({json}) = 'number' OR {mark} IN ('integer', 'float')"
        " THEN CAST({cell} AS double precision) END"
    ),
    "text": "{cell}",
    "blob": "{cell}",
}


def view_name(question_id: str) -> str:
    """Return the name of a question's view: ``answer_`` and the id made safe."""
    return VIEW_PREFIX + safe_name(question_id)


def free_view_name(connection: Connection, question_id: str, taken: Collection[str]) -> str:
    """Return a name for a question's view that no other view and no table has, whoever made it.

    Where the plain name is taken (``a_b`` by ``a-b``) a hash of the id stands behind it.
    """
    name = view_name(question_id)
    if name not in (*taken, *tables.metadata.tables) and not is_there(connection, name):
        return name
    return f"{name}_{hashlib.sha256(question_id.encode()).hexdigest()[:6]}"


def is_there(connection: Connection, name: str) -> bool:
    """Say whether there is a view or a table of this name."""
    return sa.inspect(connection).has_table(name)


def replace_view(
    connection: Connection, view: str, question_id: str, columns: Sequence[Column]
) -> None:
    """Let the view of a question show its latest published answer under these columns.

    Cells are read by name: a column that a later answer lacks shows as NULL. Of a very wide
    answer the view has the first ``MOST_COLUMNS``.
    """
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {quoted(view)}")
    connection.exec_driver_sql(
        view_sql(connection.dialect.name, view, question_id, columns[:MOST_COLUMNS])
    )


def view_sql(dialect: str, view: str, question_id: str, columns: Sequence[Column]) -> str:
    """Return the statement that creates a question's view.

    Columns are letters, digits and ``_`` (``values.safe_name``), the id is checked by
    ``ReportQuestion`` and the view's name, which a person may have edited, is quoted: nothing here
    can end a name or a string.
    """
    shown = [f'{_typed(dialect, column)} AS "{column.name}"' for column in columns]
    taken = [column.name for column in columns]
    for label, source in _ABOUT:
        shown.append(f'a.{source} AS "{free_name(label, taken)}"')
    return (
        f"CREATE VIEW {quoted(view)} AS SELECT {', '.join(shown)}"
        " FROM answers a JOIN answer_rows r ON r.answer_id = a.id WHERE a.id = ("
        f"SELECT b.id FROM answers b WHERE b.question_id = '{question_id}'"
        " AND b.status = 'answered' ORDER BY b.scheduled_at DESC LIMIT 1)"
        " ORDER BY r.position"
    )


def _typed(dialect: str, column: Column) -> str:
    if dialect == "postgresql":
        name = column.name
        return _POSTGRESQL_TYPES[column.type].format(
            json=f"(r.cells -> '{name}')",
            cell=f"(r.cells ->> '{name}')",
            mark=f"(r.marks ->> '{name}')",
        )
    cell = f"json_extract(r.cells, '$.\"{column.name}\"')"
    return _SQLITE_TYPES[column.type].format(cell=cell)
