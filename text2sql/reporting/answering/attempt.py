"""One attempt at a question of the day: candidates, a vote, and what the winner returns."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from text2sql.agent.prompts import prompt_revision
from text2sql.agent.settings import AgentSettings
from text2sql.errors import InfrastructureError
from text2sql.judge.equality import same
from text2sql.judge.voting import Vote
from text2sql.policy.base import Policy, Sampling
from text2sql.questions import Question
from text2sql.reporting.answering.candidates import candidate_of, why_none
from text2sql.reporting.answering.fingerprint import database_fingerprint
from text2sql.reporting.model.answer import Answer, AnswerStatus, Verified
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.model.values import result_table
from text2sql.rollouts.draw import RolloutPlan, vote_of
from text2sql.rollouts.store import RolloutStore
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status, check_database, clean_sql

KEEP_ROWS = 10_000
"""Rows of one answer that are stored; all are counted."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answerer:
    """Who answers, with what, and what the answers should name as their origin.

    ``transcripts`` is the folder of the candidates' rollouts: a question that was interrupted
    asks only for the candidates that are missing, and every attempt can be read afterwards.
    """

    policy: Policy
    sandbox: Sandbox
    settings: AgentSettings
    sampling: Sampling
    transcripts: Path
    keep_rows: int = KEEP_ROWS
    training_run: str = ""
    dagster_run_id: str = ""
    code_version: str = ""


class Attempt:
    """One question on its way to an answer; ``answer`` is what is known so far."""

    def __init__(
        self, question: ReportQuestion, scheduled_at: datetime, answerer: Answerer
    ) -> None:
        self.answerer = answerer
        self.question = question
        info = answerer.policy.info
        self.answer = Answer(
            question,
            scheduled_at,
            AnswerStatus.ERROR,
            policy=info.name,
            policy_revision=info.revision,
            prompt_revision=prompt_revision(answerer.settings),
            training_run=answerer.training_run,
            sampling=asdict(answerer.sampling),
            dagster_run_id=answerer.dagster_run_id,
            code_version=answerer.code_version,
        )

    async def run(self, attempt: int, check: Callable[[Path], None]) -> Answer:
        """Draw candidates, let them vote, run the winner once, hold it against what is known."""
        database = check_database(self.question.database)
        check(database)
        fingerprint = await asyncio.to_thread(database_fingerprint, database)
        self.answer = replace(self.answer, database_fingerprint=fingerprint)
        plan = self._plan()
        transcript = RolloutStore(self.answerer.transcripts / self._transcript_name(attempt))
        rollouts = await plan.rollouts([self._asked(database)], transcript)
        ballot = vote_of(rollouts)
        candidates = tuple(candidate_of(rollout, ballot) for rollout in rollouts)
        self.answer = replace(
            self.answer,
            candidates=candidates,
            share=ballot.share,
            votes=ballot.votes,
            tie=ballot.tie,
        )
        if not any(rollout.valid for rollout in rollouts):
            raise InfrastructureError(rollouts[0].error)
        if not ballot.consensus:
            return self._without_result(AnswerStatus.NO_CONSENSUS, why_none(candidates))
        await self._compare_with_verified(database, ballot)
        if ballot.share < self.question.minimum_share:
            return self._without_result(AnswerStatus.LOW_AGREEMENT, "")
        return await self._publish(plan, database, ballot)

    def _plan(self) -> RolloutPlan:
        a, votes = self.answerer, self.question.votes
        return RolloutPlan(
            a.policy,
            a.sandbox,
            a.settings,
            a.sampling,
            samples=votes,
            concurrency=votes,
            retries=1,
            run_id=a.dagster_run_id,
        )

    def _asked(self, database: Path) -> Question:
        q = self.question
        return Question(f"report/{q.id}", database.stem, database, q.question, q.evidence)

    def _transcript_name(self, attempt: int) -> str:
        """Name a file by all that a resumed attempt must have in common with the first try."""
        q = self.question
        parts = (q.question, q.evidence, q.database, self.answer.database_fingerprint)
        version = hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()[:12]
        return f"{q.id}-{self.answer.scheduled_at:%Y%m%dT%H%MZ}-{attempt}-{version}.jsonl"

    async def _publish(self, plan: RolloutPlan, database: Path, ballot: Vote) -> Answer:
        result = await plan.run_winner(ballot, database, self.answerer.keep_rows)
        if problem := _problem(result, ballot):
            return self.failed(f"the query that was agreed on failed: {problem}")
        table = result_table(result.columns, result.rows, result.row_count)
        broken = self.question.expectations.broken_by(table)
        if self.answer.verified == Verified.DIFFERS:
            broken = ["it differs from the verified SQL's result", *broken]
        if broken:
            return self._without_result(AnswerStatus.REFUTED, "; ".join(broken))
        return replace(
            self.answer,
            status=AnswerStatus.ANSWERED,
            sql=ballot.sql,
            table=table,
            digest=result.multiset_digest,
        )

    async def _compare_with_verified(self, database: Path, ballot: Vote) -> None:
        """Note whether the result that was agreed on equals that of the verified SQL."""
        if self.question.verified_sql is None:
            return
        sql = clean_sql(self.question.verified_sql)
        limits = Limits(seconds=self.answerer.settings.query_seconds)
        result = await self.answerer.sandbox.aexecute(database, sql, limits)
        verified = Verified.MATCH if same(result, ballot.digest) else Verified.DIFFERS
        if result.status is not Status.OK:
            _log.warning("the verified SQL of question %s: %s", self.question.id, result.error)
            verified = Verified.ERROR
        self.answer = replace(self.answer, verified=verified)

    def _without_result(self, status: AnswerStatus, reason: str) -> Answer:
        return replace(self.answer, status=status, error=reason)

    def failed(self, reason: str) -> Answer:
        """Return what is known with the status error."""
        return self._without_result(AnswerStatus.ERROR, reason)


def _problem(result: QueryResult, ballot: Vote) -> str:
    if result.status is not Status.OK:
        return result.error or result.status.value
    return "" if same(result, ballot.digest) else "it returned something else when run again"
