"""Query results as JSON that SQLite and PostgreSQL store and read back alike.

A cell becomes a JSON scalar. If the scalar is not the value itself, a *mark* beside it names what
it stands for: ``float`` (``"Infinity"``, ``"-Infinity"``, ``"NaN"``), ``integer`` (digits
as text, beyond 2**53, where JSON readers lose digits), ``blob`` (base64), ``text`` (a NUL or a
lone surrogate was replaced), ``cut`` (only the beginning of a text is kept) and ``cut_blob``
(base64 of the beginning of a blob).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from text2sql.common.values import finite

Scalar = str | int | float | None
Row = dict[str, Scalar]
Marks = dict[str, str]

CELL_CHARS = 100_000
"""Characters (or bytes of a BLOB) to keep of one cell."""
NAME_CHARS = 40
_EXACT_IN_JSON = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Column:
    """A column of an answer.

    ``name`` is safe and unique: lower-case letters, digits and ``_``, at most 48 characters.
    ``label`` is what the query called it. ``type`` is ``integer``, ``real``, ``text``, ``blob``, or
    ``null`` for a column without a value; a column of mixed types is ``text``.
    """

    name: str
    label: str
    type: str


@dataclass(frozen=True)
class ResultTable:
    """A result made safe to store: its columns, the rows that are kept, and the row count.

    ``marks`` has one entry a row, None if every value is stored as itself.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    marks: tuple[Marks | None, ...]
    total: int


def result_table(labels: Sequence[str], rows: Sequence[Sequence[Any]], total: int) -> ResultTable:
    """Make a query's result safe to store; ``total`` includes the rows that are not kept."""
    names = safe_names(labels)
    columns = tuple(
        Column(name, clean_text(label), _column_type(row[i] for row in rows))
        for i, (name, label) in enumerate(zip(names, labels, strict=True))
    )
    kept: list[Row] = []
    marks: list[Marks | None] = []
    for row in rows:
        encoded = list(map(_encode_cell, row))
        kept.append({name: cell for name, (cell, _) in zip(names, encoded, strict=True)})
        marked = {n: mark for n, (_, mark) in zip(names, encoded, strict=True) if mark}
        marks.append(marked or None)
    return ResultTable(columns, tuple(kept), tuple(marks), total)


def _encode_cell(value: Any) -> tuple[Scalar, str]:
    """Return a value as a JSON scalar and its mark, empty for a value stored as itself."""
    if isinstance(value, bytes):
        mark = "cut_blob" if len(value) > CELL_CHARS else "blob"
        return base64.b64encode(value[:CELL_CHARS]).decode("ascii"), mark
    if (named := finite(value)) is not value:
        return named, "float"
    if isinstance(value, int) and abs(value) > _EXACT_IN_JSON:
        return str(value), "integer"
    if isinstance(value, str):
        kept = clean_text(cut(value, CELL_CHARS))
        return kept, "cut" if len(value) > CELL_CHARS else "text" if kept != value else ""
    return value, ""


def decode_row(cells: Row, marks: Marks | None) -> dict[str, Any]:
    """Return a stored row's values by column name, except for what was cut or replaced."""
    if not marks:
        return cells
    decoders: dict[str, Callable[[str], Any]] = {"float": float, "integer": int}
    decoders |= {"blob": base64.b64decode, "cut_blob": base64.b64decode}
    return {
        name: decoders[marks[name]](str(cell)) if marks.get(name) in decoders else cell
        for name, cell in cells.items()
    }


def clean_text(text: str) -> str:
    """Replace the characters that PostgreSQL cannot store: NULs and lone surrogates."""
    return _SURROGATE.sub("\ufffd", text.replace("\x00", "\u2400"))


def cut(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters; one that was longer says so at its end."""
    mark = f"... [cut, {len(text):,} characters in all]"
    return text if len(text) <= most else text[: most - len(mark)] + mark


def _column_type(values: Iterable[Any]) -> str:
    kinds = {int: "integer", float: "real", bytes: "blob"}
    found = "null"
    for type_ in {type(value) for value in values if value is not None}:
        found = wider(found, kinds.get(type_, "text"))
    return found


def wider(one: str, other: str) -> str:
    """Return the type of a column that has values of both types."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    return "real" if {one, other} == {"integer", "real"} else "text"


def safe_names(labels: Sequence[str]) -> list[str]:
    """Return a safe, unique name for each label: ``k``, ``k_2``."""
    names: list[str] = []
    for position, label in enumerate(labels, start=1):
        names.append(free_name(safe_name(label) or f"column_{position}", names))
    return names


def free_name(base: str, taken: Iterable[str]) -> str:
    """Return ``base``, with the lowest number that makes it unique if it is taken."""
    used = set(taken)
    names = chain([base], (f"{base}_{number}" for number in count(2)))
    return next(name for name in names if name not in used)


def safe_name(label: str) -> str:
    """Return lower-case letters, digits and ``_`` of a label: ``COUNT(*)`` becomes ``count``."""
    spaced = "".join(c if c.isalnum() else "_" for c in clean_text(label).lower())
    name = re.sub("_+", "_", spaced).strip("_")
    while len(name.encode()) > NAME_CHARS:
        name = name[:-1]
    return f"_{name}" if name[:1].isdigit() else name
