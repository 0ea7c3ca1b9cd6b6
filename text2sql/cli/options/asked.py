"""The questions of a file that a command can use, or why it can use none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from text2sql.datasets.reading.files import database_files, walk
from text2sql.datasets.reading.questions import Record
from text2sql.errors import Text2SqlError
from text2sql.questions import Question

_DEPTH = 2


def usable(
    records: Sequence[Record], questions: Path, databases: Path, use: str, needed: str
) -> list[Question]:
    """Return the questions that can be used; raise Text2SqlError without any.

    ``use`` says what for (``scored``), ``needed`` what each must have.
    """
    if not records:
        raise Text2SqlError(f"{questions} has no questions.")
    found = [record.question for record in records if record.reason is None]
    if not found:
        named = sorted({record.question.db_id for record in records})
        first = f" ({records[0].question.key}: {records[0].detail})"
        raise Text2SqlError(
            f"No question of {questions} can be {use} with {databases}: each needs {needed}; the "
            f"file names {', '.join(named[:5])}{_subfolder_hint(databases, set(named)) or first}."
        )
    return found


def _subfolder_hint(databases: Path, named: set[str]) -> str:
    """Name the subfolder that has databases of these names: archives often nest one more level."""
    with suppress(Text2SqlError, OSError):  # an unreadable folder cannot be suggested
        for depth, folder in walk(databases) if not database_files(databases) else ():
            if depth > _DEPTH:
                break
            if found := database_files(folder).keys() & named:
                return f", and {folder} has {', '.join(sorted(found)[:3])}: give that folder"
    return ""
