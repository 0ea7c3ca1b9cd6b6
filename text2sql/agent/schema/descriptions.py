"""BIRD's column descriptions: CSV files beside a database, in whatever encoding they came.

The database decides what exists: descriptions of tables and columns that it does not have are
reported and never shown to a model.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from text2sql.agent.schema.description_rows import (
    NAME,
    Row,
    UnreadableError,
    doubt_of,
    plain_name,
    read_rows,
)
from text2sql.errors import Text2SqlError

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
    """Return the description files beside a database, without what macOS adds to folders.

    Raises Text2SqlError where their folder cannot be read.
    """
    return [file for file in _files(database) if _is_read(file)]


def unread_files(database: Path) -> list[Path]:
    """Return what lies with the descriptions and is none: spreadsheets, notes, folders.

    Raises Text2SqlError where their folder cannot be read.
    """
    return [file for file in _files(database) if not _is_read(file)]


def _is_read(file: Path) -> bool:
    return file.suffix.lower() in _ENDINGS and os.path.isfile(file)


def _files(database: Path) -> list[Path]:
    folder = _folder(database)
    if folder is None:
        return []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise Text2SqlError(f"{folder} cannot be read: {error.strerror}.") from error
    return [folder / n for n in names if n[0] != "." and n.lower() not in _LITTER]


def _folder(database: Path) -> Path | None:
    """Return the folder of descriptions, in whatever case its name is; None for none."""
    names = [FOLDER]
    if not os.path.isdir(database.parent / FOLDER):
        with suppress(OSError):  # a folder may be entered and not be listed
            names = sorted(n for n in os.listdir(database.parent) if n.lower() == FOLDER)
    folders = (database.parent / name for name in names)
    return next((folder for folder in folders if os.path.isdir(folder)), None)


def read_descriptions(database: Path, tables: Mapping[str, Sequence[str]]) -> Descriptions:
    """Read ``database_description/*.csv`` beside ``database``, or ``*.tsv``.

    ``tables`` maps each table of the database to its columns; names match without regard to
    case, outer spaces and Unicode's form of an accent.
    """
    known = {plain_name(name): name for name in tables}
    columns: dict[str, dict[str, str]] = {}
    unmatched: list[str] = []
    phantom: list[str] = []
    unreadable = [f"{_shown(file)} ({_why_unread(file)})" for file in unread_files(database)]
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


def _why_unread(file: Path) -> str:
    return "no file" if file.suffix.lower() in _ENDINGS else "neither .csv nor .tsv"


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
