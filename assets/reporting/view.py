"""A day's answers as Dagster shows them: a table, numbers, and the verdicts of the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.checks.view import check_result
from assets.common.plots import records
from assets.common.versions import fingerprint
from assets.reporting.checks import (
    answers_frame,
    check_agreement,
    check_answered,
    check_published,
    check_steady,
    check_verified,
)
from assets.reporting.config import ReportAnswersConfig
from assets.reporting.questions import SHOWN
from text2sql.common.counting import counted
from text2sql.evaluation.promotion.champion import named, run_of
from text2sql.reporting.answering.day import Outcome
from text2sql.reporting.delivery.entries import Entry
from text2sql.reporting.model.answer import AnswerStatus


def describe_day(
    outcomes: Sequence[Outcome],
    unreadable: Mapping[str, str],
    told: Sequence[Entry],
    config: ReportAnswersConfig,
    page: Path,
    delivered: dg.AssetCheckResult,
    champion: Mapping[str, Any],
) -> dg.MaterializeResult:
    """Return a day's answers as Dagster shows them, with the verdicts of its checks."""
    warnings = {e.answer.question_id: e.difference.warning for e in told if e.difference}
    answers = [outcome.answer for outcome in outcomes]
    statuses = Counter(answer.status for answer in answers)
    frame = answers_frame(answers, unreadable, warnings)
    return dg.MaterializeResult(
        metadata={
            "what happened": _summary(statuses, len(answers)),
            "questions": len(answers),
            **{status.value: statuses[status] for status in AnswerStatus},
            "unreadable": len(unreadable),
            "reused": sum(outcome.reused for outcome in outcomes),
            "champion": _champion(champion),
            "answers": records([_answer_row(outcome) for outcome in outcomes[:SHOWN]]),
            "page": dg.MetadataValue.path(page),
        },
        check_results=[
            check_result("published_sound", check_published(frame)),
            check_result("questions_answered", check_answered(frame, config.least_answered)),
            check_result("candidates_agree", check_agreement(frame, config.least_agreement)),
            check_result("answers_steady", check_steady(frame)),
            check_result("verified_hold", check_verified(frame)),
            delivered,
        ],
        data_version=dg.DataVersion(
            fingerprint(answers=[[a.question_id, a.status, a.digest, a.sql] for a in answers])
        ),
    )


def _summary(statuses: Mapping[AnswerStatus, int], asked: int) -> str:
    """Say how many questions were answered, and what became of the others."""
    others = [
        f"{statuses[status]} {status.replace('_', ' ')}"
        for status in AnswerStatus
        if status is not AnswerStatus.ANSWERED and statuses[status]
    ]
    of = counted(asked, "question is", "questions are")
    words = f"{statuses[AnswerStatus.ANSWERED]} of {of} answered"
    return f"{words}; not to trust: {', '.join(others)}." if others else f"{words}."


def _champion(champion: Mapping[str, Any]) -> str:
    """Say which policy answers now, and on which data it was judged."""
    judged = f"judged on dataset {champion.get('dataset', 'unknown')}"
    judged = judged if run_of(champion) else "not evaluated here"
    return f"{named(champion)}, revision {champion['revision']}, {judged}"


def _answer_row(outcome: Outcome) -> dict[str, Any]:
    answer = outcome.answer
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


def outcome_sentence(outcome: Outcome) -> str:
    """Return an answer in one line of the log."""
    answer = outcome.answer
    share = "" if answer.share is None else f", {answer.votes} of {answer.candidates} agree"
    reused = " before" if outcome.reused else ""
    error = f": {answer.error}" if answer.error else ""
    return f"{answer.question_id}: {answer.status.replace('_', ' ')}{reused}{share}{error}"
