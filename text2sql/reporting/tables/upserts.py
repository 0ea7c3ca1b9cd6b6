"""Inserting a row or updating the one with its key, the same way on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection


def upsert(
    connection: Connection,
    table: sa.Table,
    row: dict[str, Any],
    keep: Sequence[str] = (),
    **changes: sa.ColumnElement[Any],
) -> None:
    """Insert one row, or update the row with the same key, the same way on both databases.

    ``keep`` names columns that an existing row keeps; ``changes`` are expressions on the
    existing row. The key is the table's unique constraint, or its primary key.
    """
    insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
    key = _key(table)
    update = {name: insert.excluded[name] for name in row if name not in (*key, *keep)}
    statement = insert.values(row).on_conflict_do_update(
        index_elements=list(key), set_={**update, **changes}
    )
    connection.execute(statement)


def _key(table: sa.Table) -> list[str]:
    for constraint in table.constraints:
        if isinstance(constraint, sa.UniqueConstraint) and len(constraint.columns) > 1:
            return [column.name for column in constraint.columns]
    return [column.name for column in table.primary_key]
