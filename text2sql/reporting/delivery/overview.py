"""A day's answers in short: for logs, tables and the checks of the day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer


def answer_sentence(answer: StoredAnswer, reused: bool = False) -> str:
    """Return an answer as a line of the log."""
    agree = "" if answer.share is None else f", {answer.votes} of {answer.candidates} agree"
    before = " before" if reused else ""
    error = f": {answer.error}" if answer.error else ""
    return f"{answer.question_id}: {answer.status.replace('_', ' ')}{before}{agree}{error}"


def day_sentence(answers: Iterable[StoredAnswer]) -> str:
    """Count the questions that were answered, and the others by their status."""
    counts = Counter(answer.status for answer in answers)
    asked = counted(counts.total(), "question is", "questions are")
    text = f"{counts.pop(AnswerStatus.ANSWERED, 0)} of {asked} answered"
    others = [f"{counts[s]} {s.replace('_', ' ')}" for s in AnswerStatus if counts[s]]
    return f"{text}; not to be trusted: {', '.join(others)}." if others else f"{text}."


def answer_row(answer: StoredAnswer) -> dict[str, Any]:
    """Return an answer as a row of a table for people."""
    return {
        "question": answer.question[:200],
        "status": answer.status.value,
        "agreement": "" if answer.share is None else f"{answer.votes} of {answer.candidates}",
        "rows": "" if answer.row_count is None else str(answer.row_count),
        "change": answer.change.value if answer.change else "",
        "answered by": answer.training_run or answer.policy or "",
        "database": Path(answer.database).stem,
        "data": (answer.database_fingerprint or "")[:16],
        "SQL": (answer.sql or answer.error or "")[:500],
    }


def check_rows(
    answers: Sequence[StoredAnswer], warnings: Mapping[str, str], unreadable: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return what the day's checks look at, a row for each question.

    ``warnings`` say what changed in an answer although the data did not. ``unreadable`` has the
    problem of each invalid question, which counts as one that ended in an error.
    """
    names = ("share", "minimum_share", "sql", "row_count", "error")
    rows: list[dict[str, Any]] = [
        {
            "question": answer.question_id,
            "status": answer.status.value,
            "warning": warnings.get(answer.question_id) or None,
            "verified": answer.verified.value if answer.verified else None,
            **{name: getattr(answer, name) for name in names},
        }
        for answer in answers
    ]
    blank = dict.fromkeys((*names, "warning", "verified"))
    failed = blank | {"status": AnswerStatus.ERROR.value}
    return rows + [{**failed, "question": id, "error": words} for id, words in unreadable.items()]
