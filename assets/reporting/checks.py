"""What must be true of a day's answers and of the list of questions, as suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from assets.checks.expectations import SuiteResult, great_expectations, validate
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer, Verified

SHOWN = ("question", "status", "share", "error")


def answers_frame(
    answers: Sequence[StoredAnswer],
    unreadable: Mapping[str, str],
    warnings: Mapping[str, str],
) -> pd.DataFrame:
    """Return what the suites look at: a row for each question of the day.

    A question whose row is ``unreadable`` is one that ends in an error. ``warnings`` say what
    changed in an answer though the data did not.
    """
    rows: list[dict[str, Any]] = [
        {
            "question": answer.question_id,
            "status": answer.status.value,
            "share": answer.share,
            "minimum_share": answer.minimum_share,
            "sql": answer.sql,
            "row_count": answer.row_count,
            "error": answer.error,
            "warning": warnings.get(answer.question_id) or None,
            "verified": answer.verified.value if answer.verified else None,
        }
        for answer in answers
    ]
    error = {"status": AnswerStatus.ERROR.value}
    rows += [{"question": id, "error": problem, **error} for id, problem in unreadable.items()]
    return pd.DataFrame(
        rows, columns=[*SHOWN, "minimum_share", "sql", "row_count", "warning", "verified"]
    )


def check_published(frame: pd.DataFrame) -> SuiteResult:
    """Check that what is published has SQL and rows and was agreed on, and nothing else has."""
    e = great_expectations().expectations
    answered = frame["status"] == AnswerStatus.ANSWERED
    share, least, rows = (
        pd.to_numeric(frame[name], errors="coerce")
        for name in ("share", "minimum_share", "row_count")
    )
    has_sql = frame["sql"].fillna("").astype(bool)
    facts = {  # nulls are False here, which an expectation would pass over
        "a published answer has its SQL": has_sql | ~answered,
        "a published answer has rows": (rows >= 1) | ~answered,
        "a published answer reaches its minimum share": (share >= least) | ~answered,
        "what is not published has neither SQL nor rows": ~has_sql & rows.isna() | answered,
    }
    expectations = [
        _critical(e.ExpectColumnValuesToBeInSet, sentence, f"fact {number}", value_set=[True])
        for number, sentence in enumerate(facts)
    ]
    columns = {f"fact {number}": fact for number, fact in enumerate(facts.values())}
    return validate(frame.assign(**columns), expectations, SHOWN)


def check_answered(frame: pd.DataFrame, least: float) -> SuiteResult:
    """Check that no question failed, and that at least the share ``least`` was answered."""
    e = great_expectations().expectations
    expectations = [
        _critical(
            e.ExpectColumnValuesToNotBeInSet,
            "no question ends in an error",
            "status",
            value_set=[AnswerStatus.ERROR.value],
        ),
        e.ExpectColumnValuesToBeInSet(
            column="status",
            value_set=[AnswerStatus.ANSWERED.value],
            mostly=least,
            severity="warning",
            description=f"at least {least:.0%} of the questions are answered",
        ),
    ]
    return validate(frame, expectations, SHOWN)


def check_agreement(frame: pd.DataFrame, least: float) -> SuiteResult:
    """Check that the candidates of the questions agree, on average, to the share ``least``."""
    e = great_expectations().expectations
    asked = frame[frame["share"].notna()].astype({"share": float})
    agreement = e.ExpectColumnMeanToBeBetween(
        column="share",
        min_value=least - 1e-9,  # three times 0.7 have a mean just below it
        severity="warning",
        description=f"on average at least {least:.0%} of the candidates agree",
    )
    return validate(asked, [agreement] if len(asked) else [], SHOWN)


def check_steady(frame: pd.DataFrame) -> SuiteResult:
    """Check that no answer drifts: that none changed its SQL or result while the data did not."""
    e = great_expectations().expectations
    expectations = [
        e.ExpectColumnValuesToBeNull(
            column="warning",
            severity="warning",
            description="no answer changed while its data did not",
        )
    ]
    return validate(frame, expectations, (*SHOWN, "warning"))


def check_verified(frame: pd.DataFrame) -> SuiteResult:
    """Check that every result that was agreed on equals its verified SQL's, where there is one."""
    e = great_expectations().expectations
    compared = frame[frame["verified"].notna()]
    holds = e.ExpectColumnValuesToBeInSet(
        column="verified",
        value_set=[Verified.MATCH.value],
        severity="warning",
        description="what is agreed on equals what the verified SQL returns",
    )
    return validate(compared, [holds] if len(compared) else [], (*SHOWN, "verified"))


def check_databases_found(frame: pd.DataFrame) -> SuiteResult:
    """Check that every question's database is there; ``problem`` says what is wrong."""
    e = great_expectations().expectations
    expectations = [
        _critical(
            e.ExpectColumnValuesToBeNull, "the database of every question is there", "problem"
        )
    ]
    return validate(frame, expectations, ("question", "database", "problem"))


def _critical(kind: Any, description: str, column: str, **options: Any) -> Any:
    return kind(column=column, severity="critical", description=description, **options)
