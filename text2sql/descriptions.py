"""BIRD's column descriptions: CSV files beside a database, in whatever encoding they came.

The database decides what exists: descriptions of tables and columns that it does not have are
reported and never shown to a model.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "database_description"
_NAME = "original_column_name"
_SEPARATORS = (",", ";", "\t")
_SAME = ("", "none", "nan", "null")


@dataclass(frozen=True)
class Descriptions:
    """Text per table and column, and what in the files does not fit the database.

    ``unreadable_files`` gives the reason after a file's name.
    """

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    unmatched_files: tuple[str, ...] = ()
    phantom_columns: tuple[str, ...] = ()
    unreadable_files: tuple[str, ...] = ()


class _Unreadable(Exception):
    """A file that describes no columns; ``str`` says why."""


def description_files(database: Path) -> list[Path]:
    """Return the description files beside a database, without what macOS adds to folders."""
    files = (database.parent / FOLDER).glob("*")
    return sorted(f for f in files if f.suffix.lower() == ".csv" and not f.name.startswith("."))


def read_descriptions(database: Path, tables: Mapping[str, Sequence[str]]) -> Descriptions:
    """Read ``database_description/*.csv`` beside ``database``.

    ``tables`` maps each table of the database to its columns; names match without regard to
    case and outer spaces.
    """
    known = {name.strip().lower(): name for name in tables}
    columns: dict[str, dict[str, str]] = {}
    unmatched: list[str] = []
    phantom: list[str] = []
    unreadable: list[str] = []
    for file in description_files(database):
        table = known.get(file.stem.strip().lower())
        shown = file.name.encode(errors="replace").decode()
        if table is None:
            unmatched.append(shown)
            continue
        try:
            rows = _read_rows(file)
        except (OSError, csv.Error, _Unreadable) as error:
            unreadable.append(f"{shown} ({getattr(error, 'strerror', None) or error})")
            continue
        columns[table] = _match(table, rows, tables[table], phantom)
    return Descriptions(columns, tuple(unmatched), tuple(phantom), tuple(unreadable))


def _read_rows(file: Path) -> list[dict[str, str]]:
    text = _decode(file.read_bytes()).lstrip()
    for separator in _SEPARATORS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        header = [_heading(cell) for cell in next(reader, [])]
        if _NAME in header:
            rows = [[cell.strip() for cell in row] for row in reader]
            return [dict(zip(header, row, strict=False)) for row in rows]
    raise _Unreadable(f"its first line has no {_NAME}")


def _heading(cell: str) -> str:
    return "_".join(cell.lower().split())


def _decode(data: bytes) -> str:
    """Decode by byte order mark, else UTF-8 in which single bytes may be Windows-1252.

    BIRD has files that begin as UTF-8 and hold a dash as spreadsheets on Windows write it.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace").replace("\0", "")
    return data.decode("utf-8-sig", errors=_AS_WINDOWS).replace("\0", "")


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", errors="replace"), error.end


_AS_WINDOWS = "text2sql.as_windows"
codecs.register_error(_AS_WINDOWS, _as_windows)


def _match(
    table: str, rows: list[dict[str, str]], columns: Sequence[str], phantom: list[str]
) -> dict[str, str]:
    known = {name.strip().lower(): name for name in columns}
    found: dict[str, str] = {}
    for row in rows:
        original = row.get(_NAME, "")
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
