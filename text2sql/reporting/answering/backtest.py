"""Whether a new policy answers the verified questions as well as the one that answers today."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.errors import InfrastructureError
from text2sql.reporting.answering.attempt import Answerer
from text2sql.reporting.answering.day import answer_question
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer, Verified
from text2sql.reporting.model.question import Expectations, ReportQuestion

_AT = datetime(2000, 1, 1, tzinfo=UTC)
"""Back-tests belong to no day; one instant for all lets a repeated one find its rollouts."""


class Grade(StrEnum):
    """What an answer to a verified question is worth.

    ``refused``: nothing was published, for want of agreement. ``void``: the verified SQL did not
    run, so that it says nothing about any answer.
    """

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"
    VOID = "void"


@dataclass(frozen=True)
class Flip:
    """A verified question that one policy answers right and the other does not."""

    question_id: str
    question: str
    before: Grade
    after: Grade
    sql_before: str
    sql_after: str

    @property
    def lost(self) -> bool:
        """Whether the new policy is the one that does not."""
        return self.before is Grade.RIGHT


@dataclass(frozen=True)
class BackTest:
    """How many of the compared questions either policy answers right, and where they differ.

    ``left_out`` says of each verified question that was not compared why.
    """

    compared: int
    right_before: int
    right_after: int
    flips: tuple[Flip, ...]
    left_out: Mapping[str, str]

    @property
    def worse(self) -> bool:
        """Whether the new policy answers fewer questions right."""
        return self.right_after < self.right_before

    def __str__(self) -> str:
        """Return the verdict in a sentence or two, with the flips."""
        text = (
            f"Of {counted(self.compared, 'verified question')} it answers {self.right_after} right,"
            f" the champion {self.right_before}."
        )
        lost = [flip.question_id for flip in self.flips if flip.lost]
        gained = [flip.question_id for flip in self.flips if not flip.lost]
        text += f" Lost: {', '.join(lost)}." if lost else ""
        text += f" Gained: {', '.join(gained)}." if gained else ""
        out = ", ".join(self.left_out)
        return f"{text} Not compared: {out}." if out else text


def verified_questions(questions: Sequence[ReportQuestion]) -> list[ReportQuestion]:
    """Return the questions that a person gave verified SQL for, to be judged by that alone.

    What else is expected of an answer does not count in a back-test.
    """
    return [
        replace(question, expectations=Expectations())
        for question in questions
        if question.verified_sql is not None
    ]


async def answer_verified(
    questions: Sequence[ReportQuestion],
    answerer: Answerer,
    check: Callable[[Path], None] = lambda database: None,
    concurrency: int = 4,
) -> dict[str, NewAnswer]:
    """Let a policy answer verified questions as it would on a day, without storing answers.

    Rollouts that are in the answerer's folder already are not drawn again. Raises
    InfrastructureError where one cannot be answered, for then there is nothing to compare.
    """
    places = asyncio.Semaphore(concurrency)

    async def one(question: ReportQuestion) -> NewAnswer:
        async with places:
            return await answer_question(question, _AT, answerer, check=check)

    answers = await asyncio.gather(*map(one, questions))
    for answer in answers:
        if answer.status == AnswerStatus.ERROR:
            raise InfrastructureError(
                f"the verified question {answer.question.id!r} cannot be answered for the "
                f"back-test: {answer.error}"
            )
    return {answer.question.id: answer for answer in answers}


def grade(answer: NewAnswer) -> Grade:
    """Say what an answer to a verified question is worth."""
    if answer.verified == Verified.ERROR:
        return Grade.VOID
    if answer.status == AnswerStatus.ANSWERED:
        return Grade.RIGHT
    return Grade.WRONG if answer.status == AnswerStatus.REFUTED else Grade.REFUSED


def compare_answers(
    before: Mapping[str, NewAnswer], after: Mapping[str, NewAnswer], left_out: Mapping[str, str]
) -> BackTest:
    """Compare two policies' answers to the same verified questions."""
    out = dict(left_out)
    flips, right_before, right_after, compared = [], 0, 0, 0
    for name, old in before.items():
        new = after[name]
        was, is_ = grade(old), grade(new)
        if Grade.VOID in (was, is_):
            out[name] = "its verified SQL did not run"
            continue
        compared += 1
        right_before += was is Grade.RIGHT
        right_after += is_ is Grade.RIGHT
        if (was is Grade.RIGHT) != (is_ is Grade.RIGHT):
            question = new.question.question
            flips.append(Flip(name, question, was, is_, _agreed_sql(old), _agreed_sql(new)))
    return BackTest(compared, right_before, right_after, tuple(flips), out)


def _agreed_sql(answer: NewAnswer) -> str:
    """Return what most candidates submitted, published or not."""
    return next((c.sql for c in answer.queries if c.chosen and c.sql), "")


def as_record(found: BackTest) -> dict[str, Any]:
    """Return a back-test as JSON values."""
    return {
        "compared": found.compared,
        "right_before": found.right_before,
        "right_after": found.right_after,
        "flips": [vars(flip) for flip in found.flips],
        "left_out": dict(found.left_out),
    }
