"""The reference of the reporting tables, from their definition."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from text2sql.reporting.tables import metadata


def page() -> str:
    """Return the page, with a section for each table."""
    parts = [
        "# Reporting tables",
        "The tables that [scheduled answers](../reports.md) are written to, with their types on "
        "SQLite and PostgreSQL. Instants are in UTC. `text2sql reporting upgrade` makes them.",
    ]
    for table in metadata.sorted_tables:
        parts += [f"## {table.name}", _columns(table)]
    return "\n\n".join(parts) + "\n"


def _columns(table: sa.Table) -> str:
    lines = ["| column | SQLite | PostgreSQL | |", "|---|---|---|---|"]
    for column in table.columns:
        types = (column.type.compile(dialect=d) for d in (sqlite.dialect(), postgresql.dialect()))
        lines.append(f"| `{column.name}` | {' | '.join(types)} | {_notes(column)} |")
    return "\n".join(lines)


def _notes(column: sa.Column[object]) -> str:
    """Say what is special about a column."""
    notes = ["primary key"] if column.primary_key else [] if column.nullable else ["not null"]
    notes += [f"refers to `{key.target_fullname}`" for key in column.foreign_keys]
    notes += ["unique"] if column.unique else []
    return ", ".join(notes)
