"""Rows of a description file: CSV in any usual encoding and separator, and with stray quotes."""

from __future__ import annotations

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

NAME = "original_column_name"
_SEPARATORS = (",", ";", "\t", "|")
_SPREADSHEETS = re.compile(r"sep=.?[\r\n]\s*", re.IGNORECASE)
"""A line with which spreadsheets are told the separator."""


def plain_name(name: str) -> str:
    """Return a name as names are compared: without case, outer spaces and Unicode's forms."""
    return unicodedata.normalize("NFC", name.strip().lower())


class UnreadableError(Exception):
    """A file that describes no columns; ``str`` says why."""


@dataclass(frozen=True)
class Row:
    """One row by heading; ``stray`` says that it opens a quote and does not close it."""

    line: int
    cells: dict[str, str]
    stray: bool


def read_rows(data: bytes, names: Collection[str]) -> list[Row]:
    """Return the rows of a file; lines count from 1.

    A quote that is not closed would swallow the rows below. A row begins with a column's name,
    of which ``names`` has the plain form: a record that is no proper CSV and goes on over such
    a line ends with its own. Raises UnreadableError where no line of headings comes first.
    """
    text = _decode(data)
    body = _SPREADSHEETS.sub("", text.lstrip())
    above = text[: len(text) - len(body)].count("\n")
    lines = list(io.StringIO(body, newline=""))
    for separator in _SEPARATORS:
        header = [_heading(cell) for cell in next(csv.reader(lines, delimiter=separator), [])]
        if NAME in header:
            records = list(_records(lines, separator, header.index(NAME), names))[1:]
            return [
                Row(above + line, dict(zip(header, map(str.strip, cells), strict=False)), stray)
                for line, cells, stray in records
            ]
    raise UnreadableError(f"its first line has no {NAME}")


def _records(
    lines: Sequence[str], separator: str, at: int, names: Collection[str]
) -> Iterator[tuple[int, list[str], bool]]:
    """Yield (line, cells, whether an open quote was ended by force); ``at`` is the name's place."""
    start = 0
    while start < len(lines):
        cells, end, proper = _record(lines, start, separator)
        swallowed = lines[start + 1 : end] if not proper else []
        stray = any(_cell(line, separator, at) in names for line in swallowed)
        if stray:
            cells, end = _record([lines[start]], 0, separator)[0], start + 1
        yield start + 1, cells, stray
        start = end


def _record(lines: Sequence[str], start: int, separator: str) -> tuple[list[str], int, bool]:
    """Read one record; return its cells, the line after it, and whether it is proper CSV."""

    def read(strict: bool) -> tuple[list[str], int, bool]:
        rest = (lines[at] for at in range(start, len(lines)))
        reader = csv.reader(rest, delimiter=separator, strict=strict)
        return next(reader), start + reader.line_num, strict

    try:
        return read(strict=True)
    except csv.Error:
        return read(strict=False)


def _cell(line: str, separator: str, at: int) -> str:
    return plain_name("".join(line.split(separator)[at : at + 1]).strip(' "'))


def _heading(cell: str) -> str:
    return "_".join(cell.lower().split())


def doubt_of(data: bytes) -> str:
    """Say how a file was read whose bytes are not what they seem; empty for proper Unicode."""
    encoding = _encoding(data)
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != _UTF8:
            return f"it is broken {encoding.upper()}: what cannot be read is shown as \ufffd"
        line = data.count(b"\n", 0, error.start) + 1
        return f"line {line} is not in UTF-8: such bytes were read as Windows-1252"
    return ""


def _decode(data: bytes) -> str:
    """Decode what is no proper UTF-8 byte by byte as Windows-1252.

    BIRD has files that begin as UTF-8 and hold a dash as spreadsheets on Windows write it.
    """
    encoding = _encoding(data)
    errors = _AS_WINDOWS if encoding == _UTF8 else "replace"
    return data.decode(encoding, errors=errors).replace("\0", "")


def _encoding(data: bytes) -> str:
    """Tell a file's encoding by its byte order mark or its zero bytes; else it is UTF-8."""
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


_UTF8 = "utf-8-sig"
_AS_WINDOWS = "text2sql.as_windows"
codecs.register_error(_AS_WINDOWS, _as_windows)
