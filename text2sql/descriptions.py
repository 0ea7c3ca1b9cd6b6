"""BIRD's column descriptions: CSV files beside a database, in whatever encoding they came.

The database decides what exists: descriptions of tables and columns that it does not have are
reported and never shown to a model.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from text2sql.description_rows import (
    NAME,
    Row,
    UnreadableError,
    doubt_of,
    plain_name,
    read_rows,
)

FOLDER = "database_description"
_ENDINGS = (".csv", ".tsv")
_LITTER = ("thumbs.db", "desktop.ini")
_SAME = ("", "none", "nan", "null")


@dataclass(frozen=True)
class Descriptions:
    """Text per table and column, and what in the files does not fit the database.

    ``unreadable_files`` gives the reason after a file's name, and the line where a part of a
    file could not be read as it was meant. ``doubts`` are sentences on what was read but may be
    meant otherwise: bytes of an unknown encoding, a column that is described twice.
    """

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    unmatched_files: tuple[str, ...] = ()
    phantom_columns: tuple[str, ...] = ()
    unreadable_files: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def description_files(database: Path) -> list[Path]:
    """Return the description files beside a database, without what macOS adds to folders."""
    return [file for file in _files(database) if file.suffix.lower() in _ENDINGS]


def unread_files(database: Path) -> list[Path]:
    """Return what lies with the descriptions and is none: spreadsheets, notes, folders."""
    return [file for file in _files(database) if file.suffix.lower() not in _ENDINGS]


def _files(database: Path) -> list[Path]:
    folder = _folder(database)
    files = sorted(folder.iterdir()) if folder else []
    return [f for f in files if f.name[0] != "." and f.name.lower() not in _LITTER]


def _folder(database: Path) -> Path | None:
    """Return the folder of descriptions, in whatever case its name is; None for none."""
    usual = database.parent / FOLDER
    if usual.is_dir():
        return usual
    with suppress(OSError):  # a folder may be entered and not be listed
        beside = sorted(database.parent.iterdir())
        return next((f for f in beside if f.name.lower() == FOLDER and f.is_dir()), None)
    return None


def read_descriptions(database: Path, tables: Mapping[str, Sequence[str]]) -> Descriptions:
    """Read ``database_description/*.csv`` beside ``database``, or ``*.tsv``.

    ``tables`` maps each table of the database to its columns; names match without regard to
    case, outer spaces and Unicode's form of an accent.
    """
    known = {plain_name(name): name for name in tables}
    columns: dict[str, dict[str, str]] = {}
    unmatched: list[str] = []
    phantom: list[str] = []
    unreadable = [f"{_shown(file)} (neither .csv nor .tsv)" for file in unread_files(database)]
    doubts: list[str] = []
    for file in description_files(database):
        table, shown = known.get(plain_name(file.stem)), _shown(file)
        if table is None:
            unmatched.append(shown)
            continue
        names = {plain_name(name): name for name in tables[table]}
        try:
            data = file.read_bytes()
            rows = read_rows(data, names)
        except (OSError, csv.Error, UnreadableError) as error:
            unreadable.append(f"{shown} ({getattr(error, 'strerror', None) or error})")
            continue
        unreadable += [
            f"{shown} (line {r.line} opens a quote and never closes it)" for r in rows if r.stray
        ]
        twice = "another file describes this table too: the last is shown"
        reasons = [doubt_of(data), twice if table in columns else ""]
        columns[table], again = _match(table, rows, names, phantom)
        doubts += [f"{shown} ({reason})" for reason in [*reasons, *again] if reason]
    return Descriptions(columns, tuple(unmatched), tuple(phantom), tuple(unreadable), tuple(doubts))


def _shown(file: Path) -> str:
    return file.name.encode(errors="replace").decode()


def _match(
    table: str, rows: Sequence[Row], known: Mapping[str, str], phantom: list[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the text of each column, and what is said of those that are described twice.

    ``known`` maps names as they are compared to the columns.
    """
    found: dict[str, str] = {}
    twice: list[str] = []
    for row in rows:
        original = row.cells.get(NAME, "")
        if not original:
            continue
        name = known.get(plain_name(original))
        if name is None:
            phantom.append(f"{table}.{original}")
        elif text := _text(original, row.cells):
            if found.get(name, text) != text:
                twice.append(f"line {row.line} describes {name} again: the last is shown")
            found[name] = text
    return found, twice


def _text(original: str, row: Mapping[str, str]) -> str:
    """Join what says more than the column's own name: full name, meaning, meaning of values."""
    parts: list[str] = []
    for key in ("column_name", "column_description", "value_description"):
        part = " ".join(row.get(key, "").split())
        seen = {original.lower(), *(other.lower() for other in parts), *_SAME}
        if part.lower() not in seen:
            parts.append(part)
    return "; ".join(parts)
