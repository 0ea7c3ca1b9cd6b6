"""BIRD's column descriptions: CSV files beside a database, in whatever encoding they came.

The database decides what exists: descriptions of tables and columns that it does not have are
reported and never shown to a model.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "database_description"
_SAME = ("", "none", "nan", "null")


@dataclass(frozen=True)
class Descriptions:
    """Text per table and column, and what in the files does not fit the database."""

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    unmatched_files: tuple[str, ...] = ()
    phantom_columns: tuple[str, ...] = ()
    unreadable_files: tuple[str, ...] = ()


def read_descriptions(database: Path, tables: Mapping[str, Sequence[str]]) -> Descriptions:
    """Read ``database_description/*.csv`` beside ``database``.

    ``tables`` maps each table of the database to its columns; names match without regard to
    case and outer spaces. A file that is no CSV is named in ``unreadable_files``.
    """
    known = {name.strip().lower(): name for name in tables}
    columns: dict[str, dict[str, str]] = {}
    unmatched: list[str] = []
    phantom: list[str] = []
    unreadable: list[str] = []
    for file in sorted((database.parent / FOLDER).glob("*.csv")):
        table = known.get(file.stem.strip().lower())
        if table is None:
            unmatched.append(file.name)
            continue
        try:
            rows = _read_rows(file)
        except (OSError, csv.Error):
            unreadable.append(file.name)
            continue
        columns[table] = _match(table, rows, tables[table], phantom)
    return Descriptions(columns, tuple(unmatched), tuple(phantom), tuple(unreadable))


def _read_rows(file: Path) -> list[dict[str, str]]:
    reader = csv.reader(io.StringIO(_decode(file.read_bytes()), newline=""))
    rows = [[cell.strip() for cell in row] for row in reader]
    if not rows:
        return []
    header = [cell.lower() for cell in rows[0]]
    return [dict(zip(header, row, strict=False)) for row in rows[1:]]


def _decode(data: bytes) -> str:
    """Decode by byte order mark, else UTF-8, else Windows-1252 as spreadsheets write it."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace").replace("\0", "")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    return text.replace("\0", "")


def _match(
    table: str, rows: list[dict[str, str]], columns: Sequence[str], phantom: list[str]
) -> dict[str, str]:
    known = {name.strip().lower(): name for name in columns}
    found: dict[str, str] = {}
    for row in rows:
        original = row.get("original_column_name", "")
        if not original:
            continue
        name = known.get(original.lower())
        if name is None:
            phantom.append(f"{table}.{original}")
        elif text := _text(original, row):
            found[name] = text
    return found


def _text(original: str, row: dict[str, str]) -> str:
    """Join what says more than the column's own name: full name, meaning, meaning of values."""
    parts: list[str] = []
    for key in ("column_name", "column_description", "value_description"):
        part = " ".join(row.get(key, "").split())
        seen = {original.lower(), *(other.lower() for other in parts), *_SAME}
        if part.lower() not in seen:
            parts.append(part)
    return "; ".join(parts)
