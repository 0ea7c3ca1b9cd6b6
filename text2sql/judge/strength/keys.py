"""What a schema guarantees: each table's columns, which are unique and which never NULL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.common.render import folded
from text2sql.errors import Text2SqlError
from text2sql.sandbox import Limits, Sandbox, Status

ColumnName = tuple[str, str]
"""A table and a column, both in lower case, as SQLite ignores case in names."""

_COLUMNS = """
SELECT m.name, c.name, c."notnull", c.pk, c.type
FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c WHERE m.type IN ('table', 'view')
"""
_UNIQUE = """
SELECT m.name, i.name, l.name
FROM sqlite_master AS m, pragma_index_list(m.name) AS l, pragma_index_info(l.name) AS i
WHERE m.type = 'table' AND l."unique" AND NOT l.partial
"""
_LIMITS = Limits(keep_rows=1_000_000)


@dataclass(frozen=True)
class Keys:
    """A database's columns by table, the unique ones, and those without NULL.

    SQLite enforces all of this, so conclusions are valid for any content. Foreign keys are left
    out: SQLite enforces them only where a connection asks for it.
    """

    columns: Mapping[str, frozenset[str]]
    unique: frozenset[ColumnName] = frozenset()
    filled: frozenset[ColumnName] = frozenset()


def read_keys(database: Path, sandbox: Sandbox) -> Keys:
    """Read a database's keys; raises Text2SqlError where its tables cannot be listed."""
    columns = [(_name(t, c), *rest) for t, c, *rest in _rows(database, _COLUMNS, sandbox)]
    tables: dict[str, set[str]] = defaultdict(set)
    for (table, column), *_ in columns:
        tables[table].add(column)
    parts = Counter(table for (table, _), _, position, _ in columns if position)
    alone = {name: kind for name, _, position, kind in columns if position and parts[name[0]] == 1}
    rowids = {name for name, kind in alone.items() if str(kind).upper() == "INTEGER"}
    filled = {name for name, not_null, _, _ in columns if not_null} | rowids
    members: dict[str, list[ColumnName | None]] = defaultdict(list)
    for table, column, index in _rows(database, _UNIQUE, sandbox):
        members[index].append(_name(table, column) if column is not None else None)
    indexed = {names[0] for names in members.values() if len(names) == 1 and names[0]}
    return Keys(
        {table: frozenset(names) for table, names in tables.items()},
        frozenset(indexed | set(alone)),
        frozenset(filled),
    )


def _name(table: object, column: object) -> ColumnName:
    return folded(str(table)), folded(str(column))


def _rows(database: Path, sql: str, sandbox: Sandbox) -> tuple[tuple[Any, ...], ...]:
    result = sandbox.execute(database, sql, _LIMITS)
    if result.status is not Status.OK:
        reason = result.error or result.status
        raise Text2SqlError(f"The keys of {database} cannot be listed: {reason}.")
    return result.rows
