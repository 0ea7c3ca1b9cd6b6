"""The reference of the reporting tables, from their definition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from text2sql.reporting.tables.schema import (
    LATEST_ANSWERS,
    LATEST_ANSWERS_COLUMNS,
    answers,
    metadata,
    questions,
)


def page() -> str:
    """Return the page, with a section for each table."""
    parts = [
        "# Reporting tables",
        "The tables that [scheduled answers](../reports.md) are written to, with their types on "
        "SQLite and PostgreSQL. Times are in UTC. `text2sql reporting upgrade` creates them.",
    ]
    for table in metadata.sorted_tables:
        parts += [f"## {table.name}", _columns(table.columns)]
    parts += [
        f"## {LATEST_ANSWERS}",
        "A view: the latest answer of each question, published or not. The columns are those of "
        "`answers`, and of `questions` `enabled` and `view_name`, the view with the rows of the "
        "question's answer. Later versions only add columns at the end.",
        _columns(_latest()),
    ]
    return "\n\n".join(parts) + "\n"


def _latest() -> list[sa.Column[Any]]:
    """Return the columns of the view of the latest answers, with their types."""
    columns = (*questions.columns, *answers.columns)  # the answer's own where both have a name
    named = {column.name: column.type for column in columns}
    return [sa.Column(name, named[name]) for name in LATEST_ANSWERS_COLUMNS]


def _columns(columns: Iterable[sa.Column[Any]]) -> str:
    lines = ["| column | SQLite | PostgreSQL | |", "|---|---|---|---|"]
    for column in columns:
        types = (column.type.compile(dialect=d) for d in (sqlite.dialect(), postgresql.dialect()))
        lines.append(f"| `{column.name}` | {' | '.join(types)} | {_notes(column)} |")
    return "\n".join(lines)


def _notes(column: sa.Column[Any]) -> str:
    """Return the constraints of a column."""
    notes = ["primary key"] if column.primary_key else [] if column.nullable else ["not null"]
    notes += [f"refers to `{key.target_fullname}`" for key in column.foreign_keys]
    notes += ["unique"] if column.unique else []
    return ", ".join(notes)
