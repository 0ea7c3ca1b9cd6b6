"""Prediction files in the forms that official evaluators read, whoever predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from text2sql.common.files import write_whole
from text2sql.datasets.reading.questions import Reason, Record, file_key
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.evaluation.predictions.writing import bird_submission, spider_submission
from text2sql.questions import Question

_FORMS = {".json": bird_submission, ".sql": spider_submission, ".txt": spider_submission}


def require_forms(
    context: click.Context, parameter: click.Parameter, files: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse a file whose ending names no form."""
    for file in files:
        if file.suffix.lower() not in _FORMS:
            raise click.BadParameter(
                f"{file} must end with .json for BIRD's form, or .sql or .txt for Spider's."
            )
    return files


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
    for file in files:
        write_whole(file, _FORMS[file.suffix.lower()](rows, found))


def _row(record: Record) -> Question:
    """Return a row's question, under a name of its own where its id is a repetition."""
    question = record.question
    if file_key(question.key, record.reason):
        return question
    return replace(question, key=f"{question.key} of row {record.position}")
