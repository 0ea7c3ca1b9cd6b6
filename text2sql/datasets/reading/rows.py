"""Rows of a questions file: JSON or JSON Lines, with keys spelt in any of the usual ways.

Public copies of BIRD and Spider, and teams' own files, differ in spelling and case: ``SQL``,
``query``, ``gold_sql``; ``db_id``, ``dbId``, ``database``. Only letters and digits of a key count.
BIRD and Spider also ship gold queries in a .sql file beside the questions: one a line, the SQL, a
tab, the database. It is read only if the questions file has no SQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.files import read_text
from text2sql.common.json_files import json_fault
from text2sql.errors import Text2SqlError
from text2sql.sandbox import cut_suffix
from text2sql.sandbox.sql.statements import BIRD_SEPARATOR

_HALF = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s*")
_LINES = (".jsonl", ".ndjson")
_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


class Field(StrEnum):
    """A field of a row; the value is BIRD's name for it."""

    ID = "question_id"
    DATABASE = "db_id"
    QUESTION = "question"
    EVIDENCE = "evidence"
    SQL = "SQL"
    DIFFICULTY = "difficulty"
    SUBSET = "subset"


_OPTIONAL = (Field.EVIDENCE, Field.DIFFICULTY, Field.SUBSET)
_NULLS = ("nan", "none", "null", "<na>")
"""What pandas and others write as text for a missing value."""

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
    """One row: its 0-based position, file, values by normalized key, and keys as written."""

    position: int
    file: Path
    values: Mapping[str, Any]
    keys: tuple[str, ...]

    def has(self, field: Field) -> bool:
        """Whether the row has a key for the field, even if its value is null."""
        return any(name in self.values for name in _NAMES[field])

    def get(self, field: Field) -> Any:
        """Return the first value of the field that is not null."""
        return next((v for v in self._all(field) if not _is_null(v)), None)

    def text(self, field: Field) -> str:
        """Return text; null, NaN and missing are the empty string, never 'None' or 'nan'.

        In an optional field these words count as missing too. A lone surrogate of UTF-16 becomes
        U+FFFD, since no file can hold it.
        """
        value = self.get(field)
        items = value if isinstance(value, list) else [value]
        lines = [str(item).strip() for item in items if not _is_null(item)]
        text = _whole("\n".join(lines).strip())
        return "" if field in _OPTIONAL and text.lower() in _NULLS else text

    def gold(self) -> str:
        """Return the gold SQL without BIRD's suffix; skip Spider's parsed query under "sql"."""
        texts = (cut_suffix(v).strip() for v in self._all(Field.SQL) if isinstance(v, str))
        return _whole(next(texts, ""))

    def broken(self) -> list[str]:
        """Return the fields with a lone surrogate, as cutting a text at a byte leaves it."""
        return [
            field
            for field in Field
            if any(isinstance(v, str) and _whole(v) != v for v in self._all(field))
        ]

    def require_fields(self, needs_gold: bool) -> None:
        """Raise Text2SqlError if the row lacks a key, or has a value that is not text.

        Optional fields may be numbers and lists too, and Spider has an object under "sql" beside
        its query.
        """
        for field in (Field.DATABASE, Field.QUESTION, *((Field.SQL,) if needs_gold else ())):
            if not self.has(field):
                raise self.error(
                    f"has no '{field}' (found: {', '.join(self.keys) or 'nothing'}); "
                    "each entry needs db_id or database, question and SQL, which may also be in "
                    f"{self.file.stem}_gold.sql"
                )
        sql = [value for value in self._all(Field.SQL) if not _is_null(value)]
        found = {field: [self.get(field)] for field in (Field.DATABASE, Field.QUESTION)}
        found[Field.SQL] = [] if any(isinstance(value, str) for value in sql) else sql[:1]
        for field in _OPTIONAL:
            value = self.get(field)
            found[field] = value if isinstance(value, list) else [value]
        for field, values in found.items():
            kinds: Any = str | int | float | None if field in _OPTIONAL else str | None
            for value in values:
                if isinstance(value, bool) or not isinstance(value, kinds):
                    raise self.error(f"'{field}' must be text, not {kind_of(value)}")

    def error(self, problem: str) -> Text2SqlError:
        """Return an error that names the file and the row."""
        return Text2SqlError(f"{self.file}: entry {self.position} (counting from 0) {problem}.")

    def _all(self, field: Field) -> list[Any]:
        return [self.values[name] for name in _NAMES[field] if name in self.values]


def read_rows(file: Path) -> list[Row]:
    """Read a questions file, with keys normalized; of two keys with one name, the one with text.

    Raises Text2SqlError if it is not a questions file, or if two keys with one name have different
    texts: one would be lost.
    """
    entries = _parse(read_text(file, "the questions file"), file)
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise Text2SqlError(
                f"{file}: entry {position} (counting from 0) must be an object, not "
                f"{kind_of(entry)}."
            )
    rows = []
    for position, entry in enumerate(entries):
        values: dict[str, Any] = {}
        row = Row(position, file, values, tuple(map(str, entry)))
        for key, value in entry.items():
            name = _normalized(key)
            before = values.get(name)
            if not isinstance(before, str):
                values[name] = value
            elif name in _KNOWN and isinstance(value, str) and value.strip() != before.strip():
                raise row.error(f"has '{key}' in two spellings with different texts; keep one")
        rows.append(row)
    return rows


@lru_cache(maxsize=1000)  # all rows of a file have the same keys
def _normalized(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _whole(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate of UTF-16."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def _is_null(value: Any) -> bool:
    return value is None or value != value


def kind_of(value: Any) -> str:
    """Return what JSON calls a value."""
    return _KINDS.get(type(value), "null")


def _parse(text: str, file: Path) -> list[Any]:
    """Return the entries of JSON text: a list, an object with one list, or objects in a row.

    The content decides, not the suffix: people save a list as .jsonl and lines as .json.
    """
    is_list = text.lstrip().startswith("[")
    if file.suffix.lower() in _LINES and not is_list:
        return _parse_lines(text, file)
    if not text.strip():
        raise Text2SqlError(f"{file} is empty; get it again.")
    try:
        content = _load(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{"):
            return _parse_lines(text, file)
        raise Text2SqlError(
            f"{file} is not JSON: {json_fault(error)}; give an unedited and complete .json or "
            ".jsonl file."
        ) from error
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        return lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list):
        raise Text2SqlError(f"{file} must hold a list of questions, not {kind_of(content)}.")
    return content


def _parse_lines(text: str, file: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_load(line))
        except (ValueError, RecursionError) as error:
            if objects := _parse_objects(text):
                return objects
            reason = json_fault(error)
            if isinstance(error, json.JSONDecodeError):
                reason = f"{error.msg.removesuffix(' starting at')} (column {error.colno})"
            raise Text2SqlError(
                f"{file}: line {number} is not JSON: {reason}; get the file again, or fix the line."
            ) from error
    return rows


def _parse_objects(text: str) -> list[Any]:
    """Return objects that span several lines, or share one; nothing if that fails."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    rows, at, text = [], 0, text.strip()
    while at < len(text):
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        rows.append(row)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return rows


def _load(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise ValueError for a repeated key, of which readers drop one value."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values and values[name] != value:
            raise ValueError(f"an object has the key '{name}' twice with different values")
        values[name] = value
    return values


def read_gold_file(file: Path, rows: Sequence[Row]) -> list[str]:
    """Return the gold SQL of each row, paired line by line.

    The last tab of a line separates: a query may have tabs of its own. Raises Text2SqlError
    for a pair that does not match, as after a line break within a query, which shifts the rest.
    """
    lines = read_text(file, "the gold queries").rstrip("\n").split("\n")
    if len(lines) != len(rows):
        raise Text2SqlError(
            f"line_count_mismatch: {file} has {counted(len(lines), 'line')} for "
            f"{counted(len(rows), 'question')}; "
            "it needs one line for each, without line breaks within a query."
        )
    golds = []
    for line, row in zip(lines, rows, strict=True):
        sql, tab, database = line.rstrip().rpartition("\t")
        expected = row.text(Field.DATABASE)
        if not tab or database.strip() != expected:
            raise Text2SqlError(
                f"{file}: line {row.position + 1} must end in a tab and the question's database "
                f"'{expected}', not in '{database.strip()[-40:]}'."
            )
        golds.append(sql.removesuffix(BIRD_SEPARATOR.rstrip()).strip())
    return golds
