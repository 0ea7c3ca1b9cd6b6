"""Answering the questions of a day, each in one commit."""

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
from text2sql.reporting.model import bounds
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer, StoredAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.model.values import clean_text
from text2sql.reporting.tables.store import ReportingStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DayAnswer:
    """A question of the day and its answer; ``reused`` if it was answered before."""

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
    most_attempts: int = bounds.MOST_ATTEMPTS.default,
    concurrency: int = 4,
    on_answer: Callable[[DayAnswer], None] = lambda answer: None,
) -> list[DayAnswer]:
    """Answer every question for the day and store each answer at once.

    A question with a published answer for the day is not asked again, unless ``force`` is set or
    the question, or what is known of the answer, was edited since. Nor is one whose vote failed
    ``most_attempts`` times: asked until a vote passes, a share would say nothing. A question that
    fails is stored with status ``error`` and does not stop the others. If its stored answer is
    invalid, or the database refuses the new one, Text2SqlError names it once the others are
    answered. Only a failure of the reporting database ends the day; what was stored stays.
    """
    places = asyncio.Semaphore(concurrency)
    problems: list[str] = []

    async def one(question: ReportQuestion) -> DayAnswer | None:
        async with places:
            try:
                at = question.scheduled_at(day)
                stored = await asyncio.to_thread(store.answer, question.id, at)
                reused = bool(stored and not force and _settles(stored, question, most_attempts))
                if stored is None or not reused:
                    attempt = stored.attempts + 1 if stored else 1
                    new = await answer_question(
                        question, at, answerer, attempt, check=store.refuse_database
                    )
                    stored = await asyncio.to_thread(store.write_answer, new)
            except InfrastructureError:
                raise
            except Text2SqlError as error:
                problems.append(f"question {question.id!r}: {error}")
                return None
        answer = DayAnswer(question, stored, reused)
        on_answer(answer)
        return answer

    tasks = [asyncio.create_task(one(question)) for question in questions]
    try:
        answers = [answer for answer in await asyncio.gather(*tasks) if answer]
    finally:  # the database failed: no other question may still write to it
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if problems:
        raise Text2SqlError("; ".join(problems))
    return answers


def _settles(answer: StoredAnswer, question: ReportQuestion, most_attempts: int) -> bool:
    """Whether an answer stands for the question as it is asked and checked now."""
    asked = ("question", "evidence", "database", "verified_sql")
    texts = {name: getattr(question, name) for name in asked}
    same = all((t and clean_text(t)) == getattr(answer, name) for name, t in texts.items())
    same = same and question.expectations.to_dict() == (answer.expectations or {})
    if answer.status == AnswerStatus.ANSWERED:
        return same and (answer.share is None or answer.share >= question.minimum_share)
    asked_as_now = answer.minimum_share == question.minimum_share
    asked_as_now = asked_as_now and answer.candidates == question.votes
    failed = answer.status != AnswerStatus.ERROR  # of which the vote knows nothing
    return same and asked_as_now and failed and answer.attempts >= most_attempts


async def answer_question(
    question: ReportQuestion,
    scheduled_at: datetime,
    answerer: Answerer,
    attempt: int = 1,
    check: Callable[[Path], None] = lambda database: None,
) -> NewAnswer:
    """Answer one question; any failure becomes the answer's ``error``.

    ``question.database`` is the database's path, which ``check`` may refuse.
    """
    work = Attempt(question, scheduled_at, answerer)
    started = time.monotonic()
    try:
        answer = await work.run(attempt, check)
    except Exception as error:  # noqa: BLE001 - one question must not stop the others
        unexpected = None if isinstance(error, Text2SqlError) else error
        _log.warning("question %s failed: %s", question.id, error, exc_info=unexpected)
        answer = work.ended(AnswerStatus.ERROR, str(error) or type(error).__name__)
    return replace(answer, seconds=round(time.monotonic() - started, 3))
