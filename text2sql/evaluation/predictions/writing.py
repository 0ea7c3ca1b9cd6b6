"""Predictions in the forms in which BIRD's and Spider's official evaluators read them.

Both pair predictions with questions by their order, so every row of the questions file gets one,
even without an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from text2sql.common.files import write_whole
from text2sql.datasets.reading.questions import Reason, Record, file_key
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout
from text2sql.sandbox.sql.statements import BIRD_SEPARATOR

NO_ANSWER = "NO ANSWER"
"""A missing answer in Spider's form, where an empty line would end a session; not valid SQL."""
_PIECES = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|(?:--[^\n]*|/\*.*?\*/|\s)+", re.DOTALL
)


def write_submissions(
    files: Iterable[Path], questions: Sequence[Question], sql: Mapping[str, str]
) -> None:
    """Write predictions into files, each in the form that ``FORMS`` has for its ending."""
    for file in files:
        write_whole(file, FORMS[file.suffix.lower()](questions, sql))


def export_predictions(files: Sequence[Path], predictions: Path, records: Sequence[Record]) -> None:
    """Write what a prediction file has for the rows of the questions file, usable or not."""
    if files:
        rows = [_row(record) for record in records]
        sql = read_predictions(predictions, rows, [row.key for row in rows])
        write_predictions(files, sql, records)


def write_predictions(
    files: Sequence[Path], sql: Mapping[str, str], records: Sequence[Record]
) -> None:
    """Write predictions (by question key) with an entry for every row, usable or not.

    A row without a prediction has an empty one in BIRD's form and no SQL in Spider's; one that
    repeats an earlier row has that row's. Raises Text2SqlError where the disk refuses.
    """
    rows = [_row(record) for record in records]
    found = dict(sql)
    for record, row in zip(records, rows, strict=True):
        if record.reason is Reason.DUPLICATE_ROW and row.key not in found:
            found[row.key] = found.get(record.question.key, "")
    write_submissions(files, rows, found)


def _row(record: Record) -> Question:
    """Return a row's question, with a key of its own where its id occurs a second time."""
    question = record.question
    if file_key(question.key, record.reason):
        return question
    return replace(question, key=f"{question.key} of row {record.position}")


def submitted_sql(rollouts: Iterable[Rollout]) -> dict[str, str]:
    """Return what one rollout of each question submitted, by its key; empty without a query."""
    return {rollout.key: rollout.sql or "" for rollout in rollouts}


def bird_submission(questions: Sequence[Question], sql: Mapping[str, str]) -> str:
    """Return BIRD's predict_dev.json: position in the questions file to SQL and database.

    ``questions`` are all rows of the file in its order, ``sql`` goes by question key. A missing
    answer is empty, which to the evaluator matches a gold query without rows and nothing else.
    """
    rows = {
        str(place): f"{sql.get(question.key, '')}{BIRD_SEPARATOR}{question.db_id}"
        for place, question in enumerate(questions)
    }
    return json.dumps(rows, indent=4) + "\n"


def spider_submission(questions: Sequence[Question], sql: Mapping[str, str]) -> str:
    """Return Spider's predictions: one query a line, in the order of the questions file."""
    lines = (one_line(sql.get(question.key, "")) or NO_ANSWER for question in questions)
    return "".join(f"{line}\n" for line in lines)


FORMS = {".json": bird_submission, ".sql": spider_submission, ".txt": spider_submission}
"""The form of a prediction file by its ending."""


def one_line(sql: str) -> str:
    """Write a query on one line without tabs; it means the same.

    Comments go, since one would swallow what follows it; a line break or tab inside a text
    becomes ``char(10)``, ``char(13)`` or ``char(9)``.
    """
    return _PIECES.sub(_flat, sql).strip()


def _flat(found: re.Match[str]) -> str:
    piece = found.group()
    if piece[0] in '"`[':
        return re.sub(r"[\n\r\t]", " ", piece)
    if not piece.startswith("'"):
        return " "
    flat = re.sub(r"[\n\r\t]", lambda found: f"'||char({ord(found.group())})||'", piece)
    return piece if flat == piece else f"({flat})"
