"""A day's answers as Dagster shows them: a table, numbers, and the verdicts of the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.checks.view import check_result
from assets.common.plots import records
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
from resources.delivery import DeliveryResource
from text2sql.common.provenance import fingerprint
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import named, run_of
from text2sql.reporting.answering.day import DayAnswer
from text2sql.reporting.delivery.delivery import DayDelivery, deliver_day
from text2sql.reporting.delivery.entries import Entry
from text2sql.reporting.delivery.overview import answer_row, check_rows, day_sentence
from text2sql.reporting.model.answer import AnswerStatus
from text2sql.reporting.tables.store import ReportingStore

BACKFILL_TAG = "dagster/backfill"


def describe_day(
    answered: Sequence[DayAnswer],
    unreadable: Mapping[str, str],
    entries: Sequence[Entry],
    config: ReportAnswersConfig,
    page: Path,
    delivered: dg.AssetCheckResult,
    champion: Mapping[str, Any],
) -> dg.MaterializeResult:
    """Return a day's answers as Dagster shows them, with the verdicts of its checks."""
    warnings = {e.answer.question_id: e.difference.warning for e in entries if e.difference}
    answers = [one.answer for one in answered]
    counts = Counter(answer.status for answer in answers)
    dataset = f"judged on dataset {champion.get('dataset', 'unknown')}"
    judged = dataset if run_of(champion) else "not evaluated here"
    frame = answers_frame(check_rows(answers, warnings, unreadable))
    return dg.MaterializeResult(
        metadata={
            "what happened": day_sentence(answers),
            "questions": len(answers),
            **{status.value: counts[status] for status in AnswerStatus},
            "unreadable": len(unreadable),
            "reused": sum(one.reused for one in answered),
            "champion": f"{named(champion)}, revision {champion['revision']}, {judged}",
            "answers": records([answer_row(answer) for answer in answers[:SHOWN]]),
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


def deliver_and_check(
    run: dg.DagsterRun,
    resource: DeliveryResource,
    store: ReportingStore,
    day: str,
    entries: Sequence[Entry],
) -> dg.AssetCheckResult:
    """Send a day's answers to the configured channels; the check says what happened.

    A failure raises nothing: the answers are stored, and the next run for the day tries again.
    """
    backfill = BACKFILL_TAG in run.tags
    try:
        channels = resource.channels()
        found = deliver_day(store, day, entries, channels, resource.send, backfill=backfill)
    except Text2SqlError as error:
        found = DayDelivery(str(error), passed=False)
    table = [
        {"channel": one.channel, "state": one.status.value, "error": one.error}
        for one in found.deliveries
    ]
    return dg.AssetCheckResult(
        check_name="delivered",
        passed=found.passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=found.description,
        metadata={"deliveries": records(table)} if table else {},
    )
