"""Answering the questions of a day: candidates, a vote, the winner's rows, one commit each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.answering.attempt import Answerer, Attempt
from text2sql.reporting.model.answer import Answer, AnswerStatus, StoredAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.model.values import clean_text
from text2sql.reporting.tables.store import ReportingStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What a question of the day came to; ``reused`` where it was answered before."""

    question: ReportQuestion
    answer: StoredAnswer
    reused: bool


async def answer_day(
    store: ReportingStore,
    questions: Sequence[ReportQuestion],
    day: date,
    answerer: Answerer,
    *,
    force: bool = False,
    concurrency: int = 4,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Answer every question for the day and store each answer as soon as it is there.

    A question that has a published answer for the day is not asked again, unless ``force``, or
    what is asked, or what is known of the answer, was edited since.
    A question that fails is stored with status ``error`` and does not stop the others. One whose
    stored answer makes no sense, or whose answer the database cannot hold, stays as it is:
    Text2SqlError names it once the others are answered. Only a failure of the reporting database
    ends the day, with what was stored kept.
    """
    places = asyncio.Semaphore(concurrency)
    senseless: list[str] = []

    async def one(question: ReportQuestion) -> Outcome | None:
        async with places:
            try:
                outcome = await _answer_or_reuse(store, question, day, answerer, force)
            except InfrastructureError:
                raise
            except Text2SqlError as error:
                senseless.append(f"question {question.id!r}: {error}")
                return None
        on_outcome(outcome)
        return outcome

    tasks = [asyncio.create_task(one(question)) for question in questions]
    try:
        outcomes = [outcome for outcome in await asyncio.gather(*tasks) if outcome]
        if senseless:
            raise Text2SqlError("; ".join(senseless))
        return outcomes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answer_or_reuse(
    store: ReportingStore, question: ReportQuestion, day: date, answerer: Answerer, force: bool
) -> Outcome:
    scheduled_at = question.scheduled_at(day)
    before = await asyncio.to_thread(store.answer, question.id, scheduled_at)
    if before and not force and _settles(before, question):
        return Outcome(question, before, reused=True)
    attempt = before.attempts + 1 if before else 1
    answer = await answer_question(
        question, scheduled_at, answerer, attempt, check=store.refuse_database
    )
    stored = await asyncio.to_thread(store.write_answer, answer)
    return Outcome(question, stored, reused=False)


def _settles(answer: StoredAnswer, question: ReportQuestion) -> bool:
    """Say whether an answer was published for the question as it is asked and judged now."""
    kept = ("question", "evidence", "database", "verified_sql")
    same = all(_stored(getattr(question, name)) == getattr(answer, name) for name in kept)
    expected = question.expectations.to_dict() == (answer.expectations or {})
    enough = answer.share is None or answer.share >= question.minimum_share
    return answer.status == AnswerStatus.ANSWERED and same and expected and enough


def _stored(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


async def answer_question(
    question: ReportQuestion,
    scheduled_at: datetime,
    answerer: Answerer,
    attempt: int = 1,
    check: Callable[[Path], None] = lambda database: None,
) -> Answer:
    """Answer one question; whatever goes wrong is the answer's ``error``.

    ``question.database`` is the database's path, which ``check`` may refuse.
    """
    work = Attempt(question, scheduled_at, answerer)
    started = time.monotonic()
    try:
        answer = await work.run(attempt, check)
    except Exception as error:  # noqa: BLE001 - one question must not stop the others
        unforeseen = None if isinstance(error, Text2SqlError) else error
        _log.warning("question %s failed: %s", question.id, error, exc_info=unforeseen)
        answer = work.failed(str(error) or type(error).__name__)
    return replace(answer, seconds=round(time.monotonic() - started, 3))
