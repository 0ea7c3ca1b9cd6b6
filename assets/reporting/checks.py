"""The suites of the checks on a day's answers and on the list of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from assets.checks.expectations import SuiteResult, great_expectations, validate
from text2sql.reporting.model.answer import AnswerStatus, Verified

SHOWN = ("question", "status", "share", "error")


def answers_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return ``overview.check_rows`` as the frame that the suites look at."""
    columns = [*SHOWN, "minimum_share", "sql", "row_count", "warning", "verified"]
    return pd.DataFrame(rows, columns=columns)


def check_published(frame: pd.DataFrame) -> SuiteResult:
    """Check that exactly the published answers have SQL and rows, and enough agreement."""
    e = great_expectations().expectations
    answered = frame["status"] == AnswerStatus.ANSWERED
    share, least, rows = (
        pd.to_numeric(frame[name], errors="coerce")
        for name in ("share", "minimum_share", "row_count")
    )
    has_sql = frame["sql"].fillna("").astype(bool)
    facts = {  # a null is False here; an expectation would skip it
        "a published answer has its SQL": has_sql | ~answered,
        "a published answer has rows": (rows >= 1) | ~answered,
        "a published answer reaches its minimum share": (share >= least) | ~answered,
        "an unpublished answer has neither SQL nor rows": ~has_sql & rows.isna() | answered,
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
    """Check that on average at least the share ``least`` of a question's candidates agree."""
    e = great_expectations().expectations
    asked = frame[frame["share"].notna()].astype({"share": float})
    agreement = e.ExpectColumnMeanToBeBetween(
        column="share",
        min_value=least - 1e-9,  # the mean of three times 0.7 is just below 0.7
        severity="warning",
        description=f"on average at least {least:.0%} of the candidates agree",
    )
    return validate(asked, [agreement] if len(asked) else [], SHOWN)


def check_steady(frame: pd.DataFrame) -> SuiteResult:
    """Check that no answer changed its SQL or result while the data did not."""
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
    """Check that every agreed result equals that of its verified SQL, if it has one."""
    e = great_expectations().expectations
    compared = frame[frame["verified"].notna()]
    holds = e.ExpectColumnValuesToBeInSet(
        column="verified",
        value_set=[Verified.MATCH.value],
        severity="warning",
        description="the agreed result equals the verified SQL's",
    )
    return validate(compared, [holds] if len(compared) else [], (*SHOWN, "verified"))


def check_databases_found(frame: pd.DataFrame) -> SuiteResult:
    """Check that every question's database exists; ``problem`` says what is wrong."""
    e = great_expectations().expectations
    expectations = [
        _critical(e.ExpectColumnValuesToBeNull, "the database of every question exists", "problem")
    ]
    return validate(frame, expectations, ("question", "database", "problem"))


def _critical(kind: Any, description: str, column: str, **options: Any) -> Any:
    return kind(column=column, severity="critical", description=description, **options)
