"""Whether a new policy answers the verified questions as well as the champion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.common.artifacts import back_test_file
from text2sql.common.counting import counted
from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.provenance import fingerprint
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.places import is_there
from text2sql.reporting.answering.attempt import Answerer
from text2sql.reporting.answering.day import answer_question
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer, Verified
from text2sql.reporting.model.question import Expectations, ReportQuestion, database_fingerprint
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import check_database

_AT = datetime(2000, 1, 1, tzinfo=UTC)
"""Back-tests belong to no day; with one instant for all, a repeated one finds its rollouts."""


class Grade(StrEnum):
    """Whether an answer to a verified question is right.

    ``refused``: nothing was published, because too few queries agreed. ``void``: the verified SQL
    did not run, so no answer can be graded.
    """

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"
    VOID = "void"


@dataclass(frozen=True)
class Flip:
    """A verified question that only one of the policies answers right, and the agreed SQL."""

    question_id: str
    question: str
    before: Grade
    after: Grade
    sql_before: str
    sql_after: str


@dataclass(frozen=True)
class BackTest:
    """How many of the compared questions each policy answers right, and where they differ.

    ``left_out`` has the reason for each verified question that was not compared.
    """

    compared: int
    right_before: int
    right_after: int
    flips: list[Flip]
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
        named = {
            "Lost": [flip.question_id for flip in self.flips if flip.before is Grade.RIGHT],
            "Gained": [flip.question_id for flip in self.flips if flip.after is Grade.RIGHT],
            "Not compared": self.left_out,
        }
        return text + "".join(f" {how}: {', '.join(ids)}." for how, ids in named.items() if ids)


def askable_questions(store: ReportingStore) -> tuple[list[ReportQuestion], dict[str, str]]:
    """Return a store's verified questions, and by id why some of them cannot be asked.

    They come without their other expectations: a back-test grades by the verified SQL alone.
    """
    found, left_out = [], {}
    for question in QuestionTable(store).read(enabled_only=True).readable:
        if question.verified_sql is None:
            continue
        try:
            check_database(question.database)
            found.append(replace(question, expectations=Expectations()))
        except Text2SqlError as error:
            left_out[question.id] = str(error)
    return found, left_out


async def answer_verified(
    questions: Sequence[ReportQuestion],
    answerer: Answerer,
    check: Callable[[Path], None] = lambda database: None,
    concurrency: int = 4,
) -> dict[str, NewAnswer]:
    """Let a policy answer verified questions as on a day, without storing the answers.

    Uses the rollouts that are already in the answerer's folder. Raises InfrastructureError if one
    question cannot be answered, because then nothing can be compared.
    """
    places = asyncio.Semaphore(concurrency)

    async def one(question: ReportQuestion) -> NewAnswer:
        async with places:
            answer = await answer_question(question, _AT, answerer, check=check)
        if answer.status == AnswerStatus.ERROR:
            raise InfrastructureError(
                f"The verified question {question.id!r} cannot be answered for the back-test: "
                f"{answer.error}"
            )
        return answer

    answers = await asyncio.gather(*map(one, questions))
    return {answer.question.id: answer for answer in answers}


def _grade(answer: NewAnswer) -> Grade:
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
        was, is_ = _grade(old), _grade(new)
        if Grade.VOID in (was, is_):
            out[name] = "its verified SQL did not run"
            continue
        compared += 1
        right_before += was is Grade.RIGHT
        right_after += is_ is Grade.RIGHT
        if (was is Grade.RIGHT) != (is_ is Grade.RIGHT):
            # The SQL that won the vote, published or not.
            sql = [next((c.sql for c in a.queries if c.chosen and c.sql), "") for a in (old, new)]
            flips.append(Flip(name, new.question.question, was, is_, *sql))
    return BackTest(compared, right_before, right_after, flips, out)


@dataclass(frozen=True)
class BackTestVerdict:
    """Whether a candidate passes, why, and the questions on which it differs from the champion."""

    passed: bool
    sentence: str
    flips: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class BackTestPolicies:
    """The records of the champion and of the candidate's training run, and who lets them answer.

    ``answerer`` opens the policy at a place, which must have the recorded revision.
    """

    champion: Mapping[str, Any]
    candidate: Mapping[str, Any]
    answerer: Callable[[str, str], AbstractAsyncContextManager[Answerer]]


def run_back_test(
    root: Path,
    run: str,
    policies: BackTestPolicies,
    open_store: Callable[[], AbstractContextManager[ReportingStore]],
) -> BackTestVerdict:
    """Return the verdict on a training run's policy; a stored one is reused.

    A candidate passes if there is nothing to compare, and the sentence says so.
    """
    champion, candidate = policies.champion, policies.candidate
    old, new = champion.get("revision"), candidate["policy_revision"]
    if not champion:
        return BackTestVerdict(True, "Skipped: no champion to compare with yet.")
    if old == new:
        return BackTestVerdict(True, "Skipped: it has the champion's own weights.")
    if not is_there(champion["policy"]):
        why = f"the champion's weights are gone from {champion['policy']}"
        return BackTestVerdict(True, f"Skipped: {why}.")
    with open_store() as store:
        questions, left_out = askable_questions(store)
        if not questions:
            why = "no question of the reports has verified SQL"
            if left_out:
                why = f"the databases of the verified questions are gone ({', '.join(left_out)})"
            return BackTestVerdict(True, f"Skipped: {why}.")
        databases = sorted({question.database for question in questions})
        key = fingerprint(
            champion=old,
            candidate=new,
            questions=questions,
            left_out=left_out,
            databases={name: database_fingerprint(Path(name)) for name in databases},
        )
        record = read_if_there(back_test_file(root, run))
        if record.get("key") != key:

            async def ask(place: str, revision: str) -> dict[str, NewAnswer]:
                async with policies.answerer(place, revision) as answerer:
                    return await answer_verified(questions, answerer, store.refuse_database)

            before = asyncio.run(ask(champion["policy"], champion["revision"]))
            after = asyncio.run(ask(candidate["policy"], new))
            found = compare_answers(before, after, left_out)
            record = {"key": key, "champion": champion["training_run"], "champion_revision": old}
            record |= {"candidate_revision": new, "passed": not found.worse}
            record |= {"sentence": str(found)} | asdict(found)
            write_json(back_test_file(root, run), record)
    return BackTestVerdict(record["passed"], record["sentence"], record["flips"])
