"""Rows of a questions file: a JSON list or JSON Lines, whatever a copy calls its keys.

Public copies of BIRD and Spider, and teams' own files, differ in spelling and case: ``SQL``,
``query``, ``gold_sql``; ``db_id``, ``dbId``, ``database``. Only letters and digits of a key count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.common.files import read_text
from text2sql.datasets.reading.json_rows import kind_of, parse_rows
from text2sql.errors import Text2SqlError
from text2sql.sandbox import cut_suffix

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


_REMARKS = (Field.EVIDENCE, Field.DIFFICULTY, Field.SUBSET)
_NOTHING = ("nan", "none", "null", "<na>")
"""What pandas and others write as text for a value that is missing."""

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

_KNOWN = frozenset(name for names in _NAMES.values() for name in names)


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

        That also where another program wrote these words, in a field that may be missing. Half a
        character (a lone surrogate of UTF-16) is U+FFFD, as no file can hold it.
        """
        value = self.get(field)
        parts = value if isinstance(value, list) else [value]
        lines = [str(part).strip() for part in parts if not _is_null(part)]
        text = _HALF.sub("\ufffd", "\n".join(lines).strip())
        return "" if field in _REMARKS and text.lower() in _NOTHING else text

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

    def require_text(self, field: Field) -> None:
        """Raise Text2SqlError where a field has something else than text, and no text beside it.

        Spider has an object under "sql" beside its query.
        """
        values = [value for value in self._all(field) if not _is_null(value)]
        if values and not any(isinstance(value, str) for value in values):
            raise self.error(f"'{field}' must be text, not {kind_of(values[0])}")

    def require_plain(self, field: Field) -> None:
        """Raise Text2SqlError where a field is no text, number, or list of these."""
        value = self.get(field)
        for part in value if isinstance(value, list) else [value]:
            if not _is_plain(part):
                raise self.error(f"'{field}' must be text, not {kind_of(part)}")

    def missing(self, field: Field) -> Text2SqlError:
        """Return the error that says which key is not there, and which are."""
        return self.error(
            f"has no '{field}' (found: {', '.join(self.found) or 'nothing'}); "
            "each entry needs db_id or database, question and SQL, which may also stand in "
            f"{self.file.stem}_gold.sql"
        )

    def error(self, problem: str) -> Text2SqlError:
        """Return an error that names the file and the row."""
        return Text2SqlError(f"{self.file}: entry {self.position} (counting from 0) {problem}.")

    def _all(self, field: Field) -> list[Any]:
        return [self.values[name] for name in _NAMES[field] if name in self.values]


def read_rows(file: Path) -> list[Row]:
    """Read a questions file; raise Text2SqlError where it is none."""
    rows = parse_rows(read_text(file, "the questions file"), file)
    return [_row(position, file, values) for position, values in enumerate(rows)]


def _row(position: int, file: Path, values: Mapping[str, Any]) -> Row:
    """Return a row with its values by plain name; of two keys of one name, the one with text.

    Raises Text2SqlError where two keys of one name have different texts: one would be dropped.
    """
    row = Row(position, file, {}, tuple(map(str, values)))
    plain: dict[str, Any] = {}
    for key, value in values.items():
        name = re.sub(r"[^a-z0-9]", "", key.lower())
        if name in _KNOWN and _differ(plain.get(name), value):
            raise row.error(f"has '{key}' twice, spelt otherwise and with another text; keep one")
        if not isinstance(plain.get(name), str):
            plain[name] = value
    return replace(row, values=plain)


def _differ(one: Any, other: Any) -> bool:
    return isinstance(one, str) and isinstance(other, str) and one.strip() != other.strip()


def _is_null(value: Any) -> bool:
    return value is None or value != value


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | None) and not isinstance(value, bool)
