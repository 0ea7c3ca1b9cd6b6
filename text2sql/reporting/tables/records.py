"""Rows of the reporting tables as what the rest of the code works with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.answer import (
    AnswerCandidate,
    AnswerStatus,
    Change,
    StoredAnswer,
    Verified,
)
from text2sql.reporting.model.expectations import read_expectations
from text2sql.reporting.model.question import ReportQuestion, is_question_id
from text2sql.reporting.model.values import Column, decode_row
from text2sql.reporting.tables import schema as tables

_KINDS: tuple[tuple[type, type | tuple[type, ...]], ...] = (
    (tables.Words, str),
    (sa.Integer, int),
    (sa.Float, (int, float)),
)


def question_row(question: ReportQuestion, view: str) -> dict[str, Any]:
    """Return a question and the name of its view as a row of the table ``questions``."""
    row = asdict(question)
    row["time_zone"] = row.pop("timezone")
    row["schedule_group"] = row.pop("group")
    row["expectations"] = question.expectations.to_dict() or None
    return row | {"view_name": view}


def question_of(row: sa.Row[Any]) -> ReportQuestion:
    """Read a row of the table ``questions``; raise Text2SqlError for nonsense."""
    for name in ("view_name", "seed_file"):
        if not isinstance(value := row._mapping[name], str | None):
            raise Text2SqlError(f"question {row.id!r}: {name} must be text, not {value!r}")
    if not isinstance(row.seed, dict | None):
        raise Text2SqlError(f"question {row.id!r}: seed must be a JSON object, not {row.seed!r}")
    return ReportQuestion(
        id=row.id,
        question=row.question,
        database=row.database,
        evidence=row.evidence,
        votes=row.votes,
        minimum_share=row.minimum_share,
        timezone=row.time_zone,
        group=row.schedule_group,
        owner=row.owner,
        verified_sql=row.verified_sql,
        expectations=read_expectations(row.expectations or {}),
        enabled=row.enabled,
    )


def stored_answer(row: sa.Row[Any]) -> StoredAnswer:
    """Read a row of the table ``answers``; raise ValueError or TypeError for nonsense."""
    values = _values(row, tables.answers)
    values["status"] = AnswerStatus(values["status"])
    values["change"] = Change(values["change"]) if values["change"] else None
    values["verified"] = Verified(values["verified"]) if values["verified"] else None
    values["columns"] = tuple(map(_column, values["columns"] or ()))
    if not is_question_id(values["question_id"]):  # files are named by it
        raise ValueError(f"question_id is {values['question_id']!r}")
    return StoredAnswer(**values)


def _column(values: Any) -> Column:
    found = Column(**values)
    if not all(isinstance(text, str) for text in found.to_dict().values()):
        raise ValueError(f"a column is {values!r}")
    return found


def candidate_of(row: sa.Row[Any]) -> AnswerCandidate:
    """Read a row of the table ``candidates``; raise ValueError for nonsense."""
    values = _values(row, tables.candidates)
    values["row_count"] = values["row_count"] or 0
    values["digest"] = values["digest"] or ""
    values["error"] = values["error"] or ""
    del values["answer_id"], values["position"]
    return AnswerCandidate(**values)


def result_row(row: sa.Row[Any], columns: Sequence[Column]) -> dict[str, Any]:
    """Read a row of the table ``answer_rows``; raise ValueError for nonsense."""
    cells, marks = row.cells, row.marks
    if not isinstance(cells, dict) or not isinstance(marks, dict | None):
        raise ValueError("cells and marks must be JSON objects")
    if lacking := [column.name for column in columns if column.name not in cells]:
        raise ValueError(f"cells has no {', '.join(lacking)}")
    for name, cell in cells.items():
        if isinstance(cell, bool | list | dict):
            raise ValueError(f"the cell {name} must be text, a number or null")
    return decode_row(cells, marks)


def _values(row: sa.Row[Any], table: sa.Table) -> dict[str, Any]:
    """Return a row's values; SQLite, which stores any type in any column, may hold nonsense."""
    values = dict(row._mapping)
    for column in table.columns:
        kind = next((kind for type_, kind in _KINDS if isinstance(column.type, type_)), object)
        value = values[column.name]
        endless = isinstance(value, float) and not math.isfinite(value)
        if endless or (value is not None and not isinstance(value, kind)):
            raise ValueError(f"{column.name} is {value!r}")
    return values
