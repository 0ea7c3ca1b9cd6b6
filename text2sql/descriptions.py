"""BIRD's column descriptions: CSV files beside a database, in whatever encoding they came.

The database decides what exists: descriptions of tables and columns that it does not have are
reported and never shown to a model.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from text2sql.description_rows import NAME, Row, UnreadableError, plain_name, read_rows

FOLDER = "database_description"
_SAME = ("", "none", "nan", "null")


@dataclass(frozen=True)
class Descriptions:
    """Text per table and column, and what in the files does not fit the database.

    ``unreadable_files`` gives the reason after a file's name, and the line where a part of a
    file could not be read as it was meant.
    """

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    unmatched_files: tuple[str, ...] = ()
    phantom_columns: tuple[str, ...] = ()
    unreadable_files: tuple[str, ...] = ()


def description_files(database: Path) -> list[Path]:
    """Return the description files beside a database, without what macOS adds to folders."""
    files = (database.parent / FOLDER).glob("*")
    return sorted(f for f in files if f.suffix.lower() == ".csv" and not f.name.startswith("."))


def read_descriptions(database: Path, tables: Mapping[str, Sequence[str]]) -> Descriptions:
    """Read ``database_description/*.csv`` beside ``database``.

    ``tables`` maps each table of the database to its columns; names match without regard to
    case, outer spaces and Unicode's form of an accent.
    """
    known = {plain_name(name): name for name in tables}
    columns: dict[str, dict[str, str]] = {}
    unmatched: list[str] = []
    phantom: list[str] = []
    unreadable: list[str] = []
    for file in description_files(database):
        table = known.get(plain_name(file.stem))
        shown = file.name.encode(errors="replace").decode()
        if table is None:
            unmatched.append(shown)
            continue
        names = {plain_name(name): name for name in tables[table]}
        try:
            rows = read_rows(file.read_bytes(), names)
        except (OSError, csv.Error, UnreadableError) as error:
            unreadable.append(f"{shown} ({getattr(error, 'strerror', None) or error})")
            continue
        unreadable += [
            f"{shown} (line {r.line} opens a quote and never closes it)" for r in rows if r.stray
        ]
        columns[table] = _match(table, rows, names, phantom)
    return Descriptions(columns, tuple(unmatched), tuple(phantom), tuple(unreadable))


def _match(
    table: str, rows: Sequence[Row], known: Mapping[str, str], phantom: list[str]
) -> dict[str, str]:
    """Return the text of each column; ``known`` maps names as they are compared to the columns."""
    found: dict[str, str] = {}
    for row in rows:
        original = row.cells.get(NAME, "")
        if not original:
            continue
        name = known.get(plain_name(original))
        if name is None:
            phantom.append(f"{table}.{original}")
        elif text := _text(original, row.cells):
            found[name] = text
    return found


def _text(original: str, row: Mapping[str, str]) -> str:
    """Join what says more than the column's own name: full name, meaning, meaning of values."""
    parts: list[str] = []
    for key in ("column_name", "column_description", "value_description"):
        part = " ".join(row.get(key, "").split())
        seen = {original.lower(), *(other.lower() for other in parts), *_SAME}
        if part.lower() not in seen:
            parts.append(part)
    return "; ".join(parts)
