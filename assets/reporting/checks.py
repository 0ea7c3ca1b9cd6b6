"""The suites of the checks on a day's answers and on the list of questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from assets.checks.expectations import SuiteResult, expect, validate
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer, Verified

SHOWN = ("question", "status", "share", "error")


def answers_frame(
    answers: Iterable[StoredAnswer], warnings: Mapping[str, str], unreadable: Mapping[str, str]
) -> pd.DataFrame:
    """Return what the suites check, a row for each question.

    ``warnings`` say what changed in an answer although the data did not. ``unreadable`` has the
    problem of each invalid question, which counts as one that ended in an error.
    """
    names = ["share", "error", "minimum_share", "sql", "row_count"]
    rows = [
        [
            *(one.question_id, one.status.value, warnings.get(one.question_id) or None),
            one.verified and one.verified.value,
            *(getattr(one, name) for name in names),
        ]
        for one in answers
    ]
    for id, problem in unreadable.items():
        rows.append([id, AnswerStatus.ERROR.value, None, None, None, problem, None, None, None])
    return pd.DataFrame(rows, columns=["question", "status", "warning", "verified", *names])


def check_published(frame: pd.DataFrame) -> SuiteResult:
    """Check that exactly the published answers have SQL and rows, and enough agreement."""
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
        expect("ColumnValuesToBeInSet", sentence, column=sentence, value_set=[True])
        for sentence in facts
    ]
    return validate(frame.assign(**facts), expectations, SHOWN)


def check_answered(frame: pd.DataFrame, least: float) -> SuiteResult:
    """Check that no question failed, and that at least the share ``least`` was answered."""
    no_error = "no question ends in an error"
    enough = f"at least {least:.0%} of the questions are answered"
    expectations = [
        expect("ColumnValuesToNotBeInSet", no_error, column="status", value_set=["error"]),
        expect("ColumnValuesToBeInSet", enough, "warning", column="status",
               value_set=["answered"], mostly=least),
    ]  # fmt: skip
    return validate(frame, expectations, SHOWN)


def check_agreement(frame: pd.DataFrame, least: float) -> SuiteResult:
    """Check that on average at least the share ``least`` of a question's candidates agree."""
    asked = frame[frame["share"].notna()].astype({"share": float})
    sentence = f"on average at least {least:.0%} of the candidates agree"
    limit = least - 1e-9  # the mean of three times 0.7 is just below 0.7
    agree = expect("ColumnMeanToBeBetween", sentence, "warning", column="share", min_value=limit)
    return validate(asked, [agree] if len(asked) else [], SHOWN)


def check_steady(frame: pd.DataFrame) -> SuiteResult:
    """Check that no answer changed its SQL or result while the data did not."""
    sentence = "no answer changed while its data did not"
    steady = expect("ColumnValuesToBeNull", sentence, "warning", column="warning")
    return validate(frame, [steady], (*SHOWN, "warning"))


def check_verified(frame: pd.DataFrame) -> SuiteResult:
    """Check that every agreed result equals that of its verified SQL, if it has one."""
    compared = frame[frame["verified"].notna()]
    sentence, match = "the agreed result equals the verified SQL's", [Verified.MATCH.value]
    holds = expect("ColumnValuesToBeInSet", sentence, "warning", column="verified", value_set=match)
    return validate(compared, [holds] if len(compared) else [], (*SHOWN, "verified"))


def check_databases_found(frame: pd.DataFrame) -> SuiteResult:
    """Check that every question's database exists; ``problem`` says why it does not."""
    sentence = "the database of every question exists"
    found = expect("ColumnValuesToBeNull", sentence, column="problem")
    return validate(frame, [found], ("question", "database", "problem"))
