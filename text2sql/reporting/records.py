"""Rows of the reporting tables as what the rest of the code works with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from text2sql.reporting.answers import AnswerCandidate, AnswerStatus, Change, StoredAnswer, Verified
from text2sql.reporting.expectations import read_expectations
from text2sql.reporting.questions import ReportQuestion
from text2sql.reporting.values import Column


def question_row(question: ReportQuestion, view: str) -> dict[str, Any]:
    """Return a question and the name of its view as a row of the table ``questions``."""
    row = asdict(question)
    row["time_zone"] = row.pop("timezone")
    row["schedule_group"] = row.pop("group")
    row["expectations"] = question.expectations.to_dict() or None
    return row | {"view_name": view}


def question_of(row: sa.Row[Any]) -> ReportQuestion:
    """Read a row of the table ``questions``."""
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
    """Read a row of the table ``answers``."""
    values = dict(row._mapping)
    values["status"] = AnswerStatus(values["status"])
    values["change"] = Change(values["change"]) if values["change"] else None
    values["verified"] = Verified(values["verified"]) if values["verified"] else None
    values["columns"] = tuple(Column(**column) for column in values["columns"] or ())
    return StoredAnswer(**values)


def candidate_of(row: sa.Row[Any]) -> AnswerCandidate:
    """Read a row of the table ``candidates``."""
    values = dict(row._mapping)
    values["digest"] = values["digest"] or ""
    values["error"] = values["error"] or ""
    del values["answer_id"], values["position"]
    return AnswerCandidate(**values)
