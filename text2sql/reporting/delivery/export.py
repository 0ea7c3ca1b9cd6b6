"""Answers as files for spreadsheets and data frames: CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from text2sql.common.files import write_whole
from text2sql.common.values import csv_value
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer
from text2sql.reporting.model.values import Column
from text2sql.reporting.tables.store import ReportingStore

Format = Literal["csv", "parquet"]
_STARTS_FORMULA = tuple("=+-@\t\r\n" + "\uff1d\uff0b\uff0d\uff20")  # the last four are full-width
_OVERVIEW_NAMES = (
    *("question_id", "question", "status", "share", "minimum_share", "verified", "change"),
    *("row_count", "rows_kept", "error", "sql", "scheduled_at", "database_fingerprint"),
    *("policy_revision", "training_run", "dagster_run_id"),
)
_NUMBERS = dict.fromkeys(("share", "minimum_share"), "real")
_NUMBERS |= dict.fromkeys(("row_count", "rows_kept"), "integer")
_OVERVIEW_COLUMNS = [Column(name, name, _NUMBERS.get(name, "text")) for name in _OVERVIEW_NAMES]


def export_answers(
    store: ReportingStore, answers: Iterable[StoredAnswer], folder: Path, format_: Format
) -> list[Path]:
    """Write a file for each published answer and one that lists all answers; return the files.

    Replaces existing files. Raises Text2SqlError if a file cannot be written, or for Parquet
    without pyarrow.
    """
    render = _as_csv if format_ == "csv" else _as_parquet
    answers = sorted(answers, key=lambda answer: answer.question_id)
    overview = [
        {column.name: getattr(answer, column.name) for column in _OVERVIEW_COLUMNS}
        | {"scheduled_at": answer.scheduled_at.isoformat()}
        for answer in answers
    ]
    files = [write_whole(folder / f"answers.{format_}", render(_OVERVIEW_COLUMNS, overview))]
    for answer in answers:
        if answer.status == AnswerStatus.ANSWERED:
            file = folder / f"answer_{answer.question_id}.{format_}"
            files.append(write_whole(file, render(answer.columns, store.rows(answer))))
    return files


def cut_notes(answers: Iterable[StoredAnswer]) -> list[str]:
    """Name the answers whose rows are only partly stored, and so only partly exported."""
    return [
        f"{one.question_id}: only the first {one.rows_kept:,} of {one.row_count:,} rows are stored"
        for one in answers
        if one.row_count is not None and one.rows_kept is not None and one.rows_kept < one.row_count
    ]


def _as_csv(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> bytes:
    """Return rows as CSV in UTF-8, safe to open in a spreadsheet.

    Text is quoted, with a ``'`` in front if a spreadsheet would take it for a formula; numbers
    stay numbers. NULL is empty, a blob is hexadecimal digits.
    """
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow([_csv_cell(column.label) for column in columns])
    writer.writerows([_csv_cell(row[column.name]) for column in columns] for row in rows)
    return text.getvalue().encode("utf-8")


def _csv_cell(value: Any) -> Any:
    cell = csv_value(value)
    is_formula = isinstance(cell, str) and cell.startswith(_STARTS_FORMULA)
    return f"'{cell}" if is_formula else cell


def _as_parquet(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> bytes:
    """Return rows as a Parquet file with the column names of the question's view.

    Whole numbers are 64-bit integers, a column of mixed types is text, and text stays as it is:
    no reader runs it as a formula.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise Text2SqlError(
            f"Parquet needs pyarrow ({error}): install text2sql-lifecycle[pipelines], or use CSV."
        ) from error
    types = {"integer": pa.int64(), "real": pa.float64(), "blob": pa.binary(), "text": pa.string()}
    types["null"] = pa.string()
    arrays = [
        pa.array([_as_type(row[column.name], column.type) for row in rows], types[column.type])
        for column in columns
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, [column.name for column in columns]), sink)
    return bytes(sink.getvalue())


def _as_type(value: Any, type_: str) -> Any:
    if value is None or type_ == "integer":
        return value
    if type_ == "blob":
        return value if isinstance(value, bytes) else str(value).encode()
    if type_ == "real":
        return float(value)
    return value.hex() if isinstance(value, bytes) else str(value)
