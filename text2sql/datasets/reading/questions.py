"""Read question files: BIRD's of every release, Spider's, the pocket corpus's, a team's own.

A row that cannot be used keeps its place and gets a reason; nothing is dropped silently and no
database is guessed.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.datasets.reading.files import SUFFIXES, database_files, is_path, resolve, unused_files
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.datasets.reading.rows import Field, Row, read_gold_file, read_rows
from text2sql.questions import Question


class Reason(StrEnum):
    """Why a row of a questions file is not used."""

    DB_MISSING = "db_missing"
    """No database file has this db_id."""
    EMPTY_FIELD = "empty_field"
    """The question, the db_id or the gold SQL is null or blank."""
    DUPLICATE_ROW = "duplicate_row"
    """An earlier row has the same id and content (BIRD mini-dev has two of these)."""
    DUPLICATE_ID = "duplicate_id"
    """An earlier row has the same id and different content."""
    BROKEN_TEXT = "broken_text"
    """A text has half a character (a lone surrogate), which cannot be stored or shown."""


@dataclass(frozen=True)
class Record:
    """One row of a questions file: its 0-based position, the question, and why it is not used."""

    position: int
    question: Question
    reason: Reason | None = None
    detail: str = ""


def file_key(key: str, reason: str | None) -> str:
    """Return a row's key for pairing by position: empty if its id repeats an earlier one."""
    return "" if reason in (Reason.DUPLICATE_ID, Reason.DUPLICATE_ROW) else key


def load_records(layout: SplitLayout) -> list[Record]:
    """Read every row of a split that was found on disk."""
    return read_records(layout.questions, layout.databases, layout.split, layout.gold)


def asked_databases(layout: SplitLayout) -> set[str]:
    """Return the db_ids that a split's rows name, usable or not; its folder may hold others."""
    folder, known = layout.questions.parent, layout.databases
    by_file = {resolve(path, folder): db_id for db_id, path in known.items()}
    return {_db_id(row, known, by_file) for row in read_rows(layout.questions)}


def read_records(
    file: Path,
    databases: Path | Mapping[str, Path],
    split: str,
    gold: Path | None = None,
    needs_gold: bool = True,
) -> list[Record]:
    """Read every row of a questions file, usable or not; keys are ``<split>/<question_id>``.

    ``databases`` is their folder, or their files by db_id; ``gold`` a .sql file with the gold
    queries of questions that have none; without ``needs_gold`` rows are usable without one. A
    file without ids (BIRD's first train release, Spider) is numbered by position.
    """
    rows = read_rows(file)
    golds = read_gold_file(gold, rows) if gold else [row.gold() for row in rows]
    numbered = not any(row.text(Field.ID) for row in rows)
    known = database_files(databases) if isinstance(databases, Path) else databases
    by_file = {resolve(path, file.parent): db_id for db_id, path in known.items()}
    seen: dict[str, Question] = {}
    records = []
    for row, sql in zip(rows, golds, strict=True):
        row.require_fields(needs_gold and gold is None)
        db_id = _db_id(row, known, by_file)
        question = Question(
            key=f"{split}/{row.position if numbered else _identity(row)}",
            db_id=db_id,
            database=known.get(db_id, Path()),
            question=row.text(Field.QUESTION),
            evidence=row.text(Field.EVIDENCE),
            sql=sql,
            difficulty=row.text(Field.DIFFICULTY).lower(),  # files spell one in several ways
            subset=row.text(Field.SUBSET),
        )
        reason, detail = _reason(question, seen, known, needs_gold)
        if broken := " and ".join(row.broken()):
            reason, detail = Reason.BROKEN_TEXT, f"{broken} has half a character"
        seen.setdefault(question.key, question)
        records.append(Record(row.position, question, reason, detail))
    return records


def _identity(row: Row) -> str:
    """Return a row's id as text; a whole number that pandas wrote as 12.0 is 12."""
    identity = row.get(Field.ID)
    if isinstance(identity, float) and identity.is_integer():
        identity = int(identity)
    if not row.text(Field.ID):
        found = "it is empty" if row.has(Field.ID) else f"found: {', '.join(row.keys)}"
        raise row.error(
            f"has no '{Field.ID}' ({found}), but other rows have one; give one to all or to none"
        )
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        raise row.error(f"'{Field.ID}' must be text or a whole number, not {identity!r:.80}")
    return row.text(Field.ID) if isinstance(identity, str) else str(identity)


def _db_id(row: Row, known: Mapping[str, Path], by_file: Mapping[Path, str]) -> str:
    """Return a row's db_id; if the row gives a path, that of the file."""
    name = row.text(Field.DATABASE)
    if name in known or not is_path(name) or "\0" in name:
        return name
    return by_file.get(resolve(name, row.file.parent), name)


def _reason(
    question: Question, seen: Mapping[str, Question], known: Mapping[str, Path], needs_gold: bool
) -> tuple[Reason | None, str]:
    """Return why a row cannot be used, as a code and in words; (None, "") if it can."""
    if question.key in seen:
        if question == seen[question.key]:
            return Reason.DUPLICATE_ROW, "the row repeats an earlier one"
        return Reason.DUPLICATE_ID, f"an earlier, different row has the id of {question.key}"
    needed = ("db_id", "question", "sql") if needs_gold else ("db_id", "question")
    empty = [name for name in needed if not getattr(question, name)]
    if empty:
        return Reason.EMPTY_FIELD, f"{' and '.join(empty)} is empty"
    if question.db_id not in known:
        near = _suggestion(question.db_id, known)
        if not near and (found := unused_files(question.db_id, known.values())):
            expected = f"not {question.db_id} with the ending {', '.join(SUFFIXES)}"
            near = f"; its folder has {', '.join(found[:3])}, {expected}"
        return Reason.DB_MISSING, f"db_id '{question.db_id}' has no database{near}"
    return None, ""


def _suggestion(name: str, known: Mapping[str, Any]) -> str:
    """Return ``; did you mean 'x'?`` for the known name nearest to ``name``, or nothing."""
    folded = {_folded(one): one for one in known}
    near = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=0.8)
    if not near:
        return ""
    found = folded[near[0]]
    alike = unicodedata.normalize("NFC", found) == unicodedata.normalize("NFC", name)
    form = ", the same letters in another Unicode form" if alike else ""
    return f"; did you mean '{found}'{form}?"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).lower()
