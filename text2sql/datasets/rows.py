"""Rows of a questions file: a JSON list or JSON Lines, whatever a copy calls its keys.

Public copies of BIRD and Spider, and teams' own files, differ in spelling and case: ``SQL``,
``query``, ``gold_sql``; ``db_id``, ``dbId``, ``database``. Only letters and digits of a key count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.datasets.text_files import read_text
from text2sql.errors import Text2SqlError
from text2sql.sandbox import cut_suffix

LINES = (".jsonl", ".ndjson")
_HALF = re.compile("[\ud800-\udfff]")


class Field(StrEnum):
    """What a row can say; the value is how BIRD calls it."""

    ID = "question_id"
    DATABASE = "db_id"
    QUESTION = "question"
    EVIDENCE = "evidence"
    SQL = "SQL"
    DIFFICULTY = "difficulty"
    SUBSET = "subset"


_NAMES: Mapping[Field, tuple[str, ...]] = {
    Field.ID: ("questionid", "idx", "qid", "id"),
    Field.DATABASE: ("dbid", "database", "db", "dbname", "databaseid", "databasename"),
    Field.QUESTION: ("question", "nlquestion", "utterance"),
    Field.EVIDENCE: ("evidence", "externalknowledge", "knowledge", "hint"),
    Field.SQL: ("sql", "query", "goldsql", "sqlquery", "goldquery", "gold"),
    Field.DIFFICULTY: ("difficulty", "hardness"),
    Field.SUBSET: ("subset",),
}
"""The spellings of each field without case and punctuation, the preferred one first."""


@dataclass(frozen=True)
class Row:
    """One row: its 0-based position, its file, and its values by plain name."""

    position: int
    file: Path
    values: Mapping[str, Any]
    found: tuple[str, ...]

    def has(self, field: Field) -> bool:
        """Whether the row has a key for the field, be it null."""
        return any(name in self.values for name in _NAMES[field])

    def get(self, field: Field) -> Any:
        """Return the first value of the field that is not null."""
        return next((v for v in self._all(field) if not _is_null(v)), None)

    def text(self, field: Field) -> str:
        """Return text; null, NaN and missing are the empty string, never 'None' or 'nan'.

        Half a character (a lone surrogate of UTF-16) is U+FFFD, as no file can hold it.
        """
        value = self.get(field)
        parts = value if isinstance(value, list) else [value]
        lines = [str(part).strip() for part in parts if not _is_null(part)]
        return _HALF.sub("\ufffd", "\n".join(lines).strip())

    def gold(self) -> str:
        """Return the gold SQL without BIRD's suffix.

        Spider has the parsed query as an object under "sql" beside it.
        """
        texts = (cut_suffix(v).strip() for v in self._all(Field.SQL) if isinstance(v, str))
        return _HALF.sub("\ufffd", next(texts, ""))

    def broken(self) -> list[str]:
        """Name the fields that hold half a character, as cutting a text at a byte leaves it."""
        return [
            field
            for field in Field
            if any(isinstance(v, str) and _HALF.search(v) for v in self._all(field))
        ]

    def missing(self, field: Field) -> Text2SqlError:
        """Return the error that says which key is not there, and which are."""
        return self.error(
            f"has no '{field}' (found: {', '.join(self.found) or 'nothing'}); "
            "each entry needs db_id or database, question and SQL"
        )

    def error(self, problem: str) -> Text2SqlError:
        """Return an error that names the file and the row."""
        return Text2SqlError(f"{self.file}: entry {self.position} (counting from 0) {problem}.")

    def _all(self, field: Field) -> list[Any]:
        return [self.values[name] for name in _NAMES[field] if name in self.values]


def read_rows(file: Path) -> list[Row]:
    """Read a questions file; raise Text2SqlError where it is none."""
    rows = _parse(read_text(file, "the questions file"), file)
    for position, row in enumerate(rows):
        if not isinstance(row, dict):
            kind = type(row).__name__
            raise Text2SqlError(f"{file}: entry {position} must be an object, not a {kind}.")
    return [Row(n, file, _plain(row), tuple(map(str, row))) for n, row in enumerate(rows)]


def _parse(text: str, file: Path) -> list[Any]:
    """Read one JSON list, be it the only list of an object, or one object a line."""
    if file.suffix.lower() in LINES:
        return _parse_lines(text, file)
    try:
        content = _load(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{"):
            return _parse_lines(text, file)
        raise Text2SqlError(
            f"{file} is not JSON: {error}; give .json or .jsonl, whole and as it was written."
        ) from error
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        return lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list):
        kind = type(content).__name__
        raise Text2SqlError(f"{file} must hold a list of questions, not a {kind}.")
    return content


def _parse_lines(text: str, file: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append(_load(line))
            except (ValueError, RecursionError) as error:
                raise Text2SqlError(f"{file}: line {number} is not JSON: {error}.") from error
    return rows


def _load(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise ValueError where a key says two things, which readers drop."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values and values[name] != value:
            raise ValueError(f"an object has the key '{name}' twice, with other values")
        values[name] = value
    return values


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by plain name; of two keys that differ in case only, the one with text."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        plain = re.sub(r"[^a-z0-9]", "", name.lower())
        if not isinstance(values.get(plain), str):
            values[plain] = value
    return values


def _is_null(value: Any) -> bool:
    return value is None or value != value
