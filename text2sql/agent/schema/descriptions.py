"""BIRD's column descriptions: CSV files beside a database, in any encoding and separator.

The database decides what exists: descriptions of tables and columns that it does not have are
reported and never shown to a model.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from text2sql.errors import Text2SqlError

FOLDER = "database_description"
_ENDINGS = (".csv", ".tsv")
_LITTER = ("thumbs.db", "desktop.ini")
_SAME = ("", "none", "nan", "null")
_NAME = "original_column_name"
_SEPARATORS = (",", ";", "\t", "|")
_SPREADSHEETS = re.compile(r"sep=.?[\r\n]\s*", re.IGNORECASE)
"""A line that tells spreadsheets the separator."""

_UTF8 = "utf-8-sig"
_AS_WINDOWS = "text2sql.as_windows"


@dataclass(frozen=True)
class Descriptions:
    """Text per table and column, and what in the files does not fit the database.

    ``unreadable_files`` gives the reason after a file's name, and the line if only a part is
    unreadable. ``doubts`` are sentences about what may have been misread: bytes of an unknown
    encoding, a column that is described twice.
    """

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    unmatched_files: tuple[str, ...] = ()
    phantom_columns: tuple[str, ...] = ()
    unreadable_files: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def description_files(database: Path) -> list[Path]:
    """Return the description files beside a database; raises Text2SqlError if unreadable."""
    return [file for file in _files(database) if _is_read(file)]


def unread_files(database: Path) -> list[Path]:
    """Return what else is in their folder, such as spreadsheets; raises the same."""
    return [file for file in _files(database) if not _is_read(file)]


def _is_read(file: Path) -> bool:
    return file.suffix.lower() in _ENDINGS and os.path.isfile(file)


def _files(database: Path) -> list[Path]:
    """List the folder of descriptions, whatever the case of its name; empty without one."""
    names = [FOLDER]
    if not os.path.isdir(database.parent / FOLDER):
        with suppress(OSError):  # a folder may be accessible but not listable
            names = sorted(n for n in os.listdir(database.parent) if n.lower() == FOLDER)
    for folder in filter(os.path.isdir, (database.parent / name for name in names)):
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise Text2SqlError(f"{folder} cannot be read: {error.strerror}.") from error
        return [folder / n for n in names if n[0] != "." and n.lower() not in _LITTER]
    return []


def read_descriptions(database: Path, tables: Mapping[str, Sequence[str]]) -> Descriptions:
    """Read ``database_description/*.csv`` beside ``database``, or ``*.tsv``.

    ``tables`` maps each table of the database to its columns; names match whatever their case,
    outer spaces and Unicode form of accents.
    """
    known = {_plain_name(name): name for name in tables}
    columns: dict[str, dict[str, str]] = {}
    unmatched: list[str] = []
    phantom: list[str] = []
    unreadable: list[str] = []
    for file in unread_files(database):
        why = "no file" if file.suffix.lower() in _ENDINGS else "neither .csv nor .tsv"
        unreadable.append(f"{_shown(file)} ({why})")
    doubts: list[str] = []
    for file in description_files(database):
        table, shown = known.get(_plain_name(file.stem)), _shown(file)
        if table is None:
            unmatched.append(shown)
            continue
        names = {_plain_name(name): name for name in tables[table]}
        try:
            data = file.read_bytes()
            rows = _read_rows(data, names)
        except (OSError, csv.Error) as error:
            unreadable.append(f"{shown} ({getattr(error, 'strerror', None) or error})")
            continue
        unreadable += [
            f"{shown} (line {r.line} opens a quote and never closes it)" for r in rows if r.stray
        ]
        twice = "another file describes this table too: the last is shown"
        reasons = [_doubt_of(data), twice if table in columns else ""]
        columns[table], again = _match(table, rows, names, phantom)
        doubts += [f"{shown} ({reason})" for reason in [*reasons, *again] if reason]
    return Descriptions(columns, tuple(unmatched), tuple(phantom), tuple(unreadable), tuple(doubts))


def _shown(file: Path) -> str:
    return file.name.encode(errors="replace").decode()


def _match(
    table: str, rows: Sequence[_Row], known: Mapping[str, str], phantom: list[str]
) -> tuple[dict[str, str], list[str]]:
    """Return each column's text, and notes on columns that are described twice."""
    found: dict[str, str] = {}
    twice: list[str] = []
    for row in rows:
        original = row.cells.get(_NAME, "")
        if not original:
            continue
        name = known.get(_plain_name(original))
        if name is None:
            phantom.append(f"{table}.{original}")
        elif text := _text(original, row.cells):
            if found.get(name, text) != text:
                twice.append(f"line {row.line} describes {name} again: the last is shown")
            found[name] = text
    return found, twice


def _text(original: str, row: Mapping[str, str]) -> str:
    """Join full name, meaning and meaning of values, as far as they add to the column's name."""
    parts: list[str] = []
    for key in ("column_name", "column_description", "value_description"):
        part = " ".join(row.get(key, "").split())
        seen = {original.lower(), *(other.lower() for other in parts), *_SAME}
        if part.lower() not in seen:
            parts.append(part)
    return "; ".join(parts)


def _plain_name(name: str) -> str:
    """Return a name in lower case, without outer spaces, in Unicode's composed form."""
    return unicodedata.normalize("NFC", name.strip().lower())


@dataclass(frozen=True)
class _Row:
    """One row by heading; ``stray`` says that it has an unclosed quote."""

    line: int
    cells: dict[str, str]
    stray: bool


def _read_rows(data: bytes, names: Collection[str]) -> list[_Row]:
    """Return the rows of a file; lines count from 1.

    An unclosed quote would swallow the rows below. So an invalid CSV record ends with its line if
    the next lines begin with a column's name, whose plain form is in ``names``. Bytes that are
    not UTF-8 are read as Windows-1252: BIRD has UTF-8 files with a dash as spreadsheets on
    Windows write it. Raises csv.Error if the first line has no headings.
    """
    encoding = _encoding(data)
    errors = _AS_WINDOWS if encoding == _UTF8 else "replace"
    text = data.decode(encoding, errors=errors).replace("\0", "")
    body = _SPREADSHEETS.sub("", text.lstrip())
    above = text[: len(text) - len(body)].count("\n")
    lines = list(io.StringIO(body, newline=""))
    for separator in _SEPARATORS:
        first = next(csv.reader(lines, delimiter=separator), [])
        header = ["_".join(cell.lower().split()) for cell in first]
        if _NAME in header:
            records = list(_records(lines, separator, header.index(_NAME), names))[1:]
            return [
                _Row(above + line, dict(zip(header, map(str.strip, cells), strict=False)), stray)
                for line, cells, stray in records
            ]
    raise csv.Error(f"its first line has no {_NAME}")


def _records(
    lines: Sequence[str], separator: str, at: int, names: Collection[str]
) -> Iterator[tuple[int, list[str], bool]]:
    """Yield (line, cells, whether a quote is unclosed); ``at`` is the position of the name."""
    start = 0
    while start < len(lines):
        cells, end, proper = _record(lines, start, separator)
        swallowed = (line.split(separator) for line in lines[start + 1 : end] if not proper)
        stray = any(
            _plain_name(cell.strip(' "')) in names for cells in swallowed for cell in cells[at:][:1]
        )
        if stray:
            cells, end = _record([lines[start]], 0, separator)[0], start + 1
        yield start + 1, cells, stray
        start = end


def _record(lines: Sequence[str], start: int, separator: str) -> tuple[list[str], int, bool]:
    """Read one record; return its cells, the line after it, and whether it is valid CSV."""

    def read(strict: bool) -> tuple[list[str], int, bool]:
        rest = (lines[at] for at in range(start, len(lines)))
        reader = csv.reader(rest, delimiter=separator, strict=strict)
        return next(reader), start + reader.line_num, strict

    try:
        return read(strict=True)
    except csv.Error:
        return read(strict=False)


def _doubt_of(data: bytes) -> str:
    """Say how invalid bytes of a file were read; empty for valid Unicode."""
    encoding = _encoding(data)
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != _UTF8:
            return f"it is broken {encoding.upper()}: what cannot be read is shown as \ufffd"
        line = data.count(b"\n", 0, error.start) + 1
        return f"line {line} is not in UTF-8: such bytes were read as Windows-1252"
    return ""


def _encoding(data: bytes) -> str:
    """Detect an encoding by its byte order mark or its zero bytes; else assume UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if data[first:16:2] == bytes(8):
            return encoding
    return _UTF8


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", errors="replace"), error.end


codecs.register_error(_AS_WINDOWS, _as_windows)
