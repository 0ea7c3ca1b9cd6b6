"""Read question files in BIRD's layout (BIRD train, dev and mini-dev, Spider, the pocket corpus).

A row that cannot be used keeps its place and is given a reason; nothing is dropped silently and
no database is guessed. Key names of public copies differ in case and spelling.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.datasets.layout import database_files, find_split, fingerprint
from text2sql.errors import Text2SqlError
from text2sql.questions import Question

_IDS = ("question_id", "idx")
_GOLD = ("sql", "query")


class Reason(StrEnum):
    """Why a row of a questions file is not used."""

    DB_MISSING = "db_missing"
    """No database file has this db_id."""
    EMPTY_FIELD = "empty_field"
    """The question, the db_id or the gold SQL is null or blank."""
    DUPLICATE_ROW = "duplicate_row"
    """An earlier row has the same id and says the same (BIRD mini-dev has two of these)."""
    DUPLICATE_ID = "duplicate_id"
    """An earlier row has the same id and says something else."""


@dataclass(frozen=True)
class Record:
    """One row of a questions file: its 0-based position, the question, and why it is not used."""

    position: int
    question: Question
    reason: Reason | None = None
    detail: str = ""


@dataclass(frozen=True)
class Dataset:
    """One split as read from disk.

    ``fingerprint`` names the bytes of the questions file and the databases: results of two
    fingerprints must not be compared.
    """

    name: str
    split: str
    fingerprint: str
    records: tuple[Record, ...]

    @property
    def questions(self) -> list[Question]:
        """The questions that can be used, in file order."""
        return [record.question for record in self.records if record.reason is None]

    @property
    def problems(self) -> list[Record]:
        """The rows that are left out, each with its reason and detail."""
        return [record for record in self.records if record.reason is not None]

    @property
    def file_keys(self) -> list[str]:
        """The key of every row of the file in order; empty for repeated ids."""
        return [file_key(record.question.key, record.reason) for record in self.records]


def file_key(key: str, reason: str | None) -> str:
    """Return a row's key as pairing by position needs it: empty where the id is a repetition."""
    return "" if reason in (Reason.DUPLICATE_ID, Reason.DUPLICATE_ROW) else key


def load_split(root: Path, split: str) -> Dataset:
    """Read split ``train`` or ``dev`` of the dataset whose folder is, or lies below, ``root``.

    Raises Text2SqlError when files are missing, unreadable, or their rows lack a needed key.
    """
    layout = find_split(root, split)
    records = read_records(layout.questions, layout.databases, split)
    return Dataset(root.resolve().name, split, fingerprint(layout), tuple(records))


def read_questions(file: Path, databases: Path, split: str) -> list[Question]:
    """Read a questions file of which every row must be usable; raise on the first that is not."""
    records = read_records(file, databases, split)
    for record in records:
        if record.reason is not None:
            raise Text2SqlError(f"{file}: entry {record.position}: {record.detail}.")
    return [record.question for record in records]


def read_records(file: Path, databases: Path, split: str) -> list[Record]:
    """Read every row of a questions file, usable or not; keys are ``<split>/<question_id>``.

    A file without ids (BIRD's first train release, Spider) is numbered by position.
    """
    rows = _read_rows(file)
    numbered = bool(rows) and all(_get(row, _IDS) is None for row in rows)
    known = database_files(databases)
    seen: dict[str, Question] = {}
    records = []
    for position, row in enumerate(rows):
        identity = str(position) if numbered else _identity(row, position, file)
        question = _question(row, f"{split}/{identity}", position, file)
        path = known.get(question.db_id, databases / question.db_id / f"{question.db_id}.sqlite")
        reason, detail = _reason(question, seen, known)
        seen.setdefault(question.key, question)
        records.append(Record(position, replace(question, database=path), reason, detail))
    return records


def _read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON list with their key names in lower case."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Text2SqlError(f"Cannot read the questions file {file}: {error.strerror}.") from error
    except ValueError as error:
        raise Text2SqlError(f"{file} is not JSON in UTF-8: {error}.") from error
    if not isinstance(rows, list):
        raise Text2SqlError(f"{file} must hold a list of questions, not a {type(rows).__name__}.")
    for position, row in enumerate(rows):
        if not isinstance(row, dict):
            kind = type(row).__name__
            raise Text2SqlError(f"{file}: entry {position} must be an object, not a {kind}.")
    return [{str(name).lower(): value for name, value in row.items()} for row in rows]


def _get(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _identity(row: Mapping[str, Any], position: int, file: Path) -> str:
    identity = _get(row, _IDS)
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        raise _missing("question_id", row, position, file)
    return str(identity).strip()


def _question(row: Mapping[str, Any], key: str, position: int, file: Path) -> Question:
    for name in ("db_id", "question"):
        if name not in row:
            raise _missing(name, row, position, file)
        if not isinstance(row[name], str | None) and row[name] == row[name]:
            kind = type(row[name]).__name__
            raise Text2SqlError(f"{file}: entry {position}: '{name}' must be text, not {kind}.")
    if not any(name in row for name in _GOLD):
        raise _missing("SQL", row, position, file)
    # Spider's own files carry the parsed query as an object under "sql" beside the text.
    gold = next((row[name] for name in _GOLD if isinstance(row.get(name), str)), "")
    return Question(
        key=key,
        db_id=_text(row["db_id"]),
        database=Path(),
        question=_text(row["question"]),
        evidence=_text(row.get("evidence")),
        sql=gold.strip(),
        difficulty=_text(row.get("difficulty")),
        subset=_text(row.get("subset")),
    )


def _missing(name: str, row: Mapping[str, Any], position: int, file: Path) -> Text2SqlError:
    found = ", ".join(row) or "nothing"
    return Text2SqlError(
        f"{file}: entry {position} (counting from 0) has no '{name}' (found: {found}); "
        "each entry needs db_id, question and SQL."
    )


def _text(value: Any) -> str:
    """Return text; null, NaN and missing become the empty string, never 'None' or 'nan'."""
    if value is None or value != value:
        return ""
    return str(value).strip()


def _reason(
    question: Question, seen: Mapping[str, Question], known: Mapping[str, Path]
) -> tuple[Reason | None, str]:
    """Say why a row cannot be used, in a code and in words; (None, "") when it can."""
    if question.key in seen:
        if question == seen[question.key]:
            return Reason.DUPLICATE_ROW, "the row repeats an earlier one"
        return Reason.DUPLICATE_ID, f"the id of {question.key} belongs to an earlier, other row"
    empty = [name for name in ("db_id", "question", "sql") if not getattr(question, name)]
    if empty:
        return Reason.EMPTY_FIELD, f"{' and '.join(empty)} is empty"
    if question.db_id not in known:
        near = suggestion(question.db_id, known)
        return Reason.DB_MISSING, f"db_id '{question.db_id}' has no database{near}"
    return None, ""


def suggestion(name: str, known: Mapping[str, Any]) -> str:
    """Return ``; did you mean 'x'?`` for the known name nearest to ``name``, or nothing."""
    folded = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.8)
    return f"; did you mean '{folded[near[0]]}'?" if near else ""
