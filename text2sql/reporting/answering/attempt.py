"""One attempt at a question: sampled queries, a vote, and the result of the winner."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from text2sql.agent.prompts import prompt_revision
from text2sql.agent.settings import AgentSettings
from text2sql.common.counting import counted
from text2sql.errors import InfrastructureError
from text2sql.judge.equality import alike
from text2sql.judge.voting import Vote
from text2sql.policy.base import Policy, Sampling
from text2sql.questions import Question
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer, SampledQuery, Verified
from text2sql.reporting.model.bounds import KEEP_ROWS
from text2sql.reporting.model.question import ReportQuestion, database_fingerprint
from text2sql.reporting.model.values import result_table
from text2sql.rollouts.draw import RolloutPlan, vote_of
from text2sql.rollouts.store import Rollout, RolloutStore
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status, check_database, clean_sql

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answerer:
    """The policy that answers, how it is asked, and the origin that the answers record.

    ``transcripts`` is the folder of the rollouts: an interrupted question only samples the missing
    ones, and every attempt can be read afterwards.
    """

    policy: Policy
    sandbox: Sandbox
    settings: AgentSettings
    sampling: Sampling
    transcripts: Path
    keep_rows: int = KEEP_ROWS.default
    training_run: str = ""
    dagster_run_id: str = ""
    code_version: str = ""


class Attempt:
    """An attempt to answer one question; ``answer`` is what is known so far."""

    def __init__(
        self, question: ReportQuestion, scheduled_at: datetime, answerer: Answerer
    ) -> None:
        self.answerer = answerer
        self.question = question
        info = answerer.policy.info
        self.answer = NewAnswer(
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

    async def run(self, attempt: int, check: Callable[[Path], None]) -> NewAnswer:
        """Sample queries, let them vote, run the winner once, and check its result."""
        a, q = self.answerer, self.question
        database = check_database(q.database)
        check(database)
        fingerprint = await asyncio.to_thread(database_fingerprint, database)
        self.answer = replace(self.answer, database_fingerprint=fingerprint)
        plan = RolloutPlan(
            a.policy,
            a.sandbox,
            a.settings,
            a.sampling,
            samples=q.votes,
            concurrency=q.votes,
            retries=1,
            run_id=a.dagster_run_id,
        )
        asked = Question(f"report/{q.id}", database.stem, database, q.question, q.evidence)
        transcript = RolloutStore(a.transcripts / self._transcript_name(attempt))
        rollouts = await plan.rollouts([asked], transcript)
        winner = vote_of(rollouts)
        queries = tuple(_sampled_query(rollout, winner) for rollout in rollouts)
        self.answer = replace(
            self.answer, queries=queries, share=winner.share, votes=winner.votes, tie=winner.tie
        )
        if not any(rollout.valid for rollout in rollouts):
            raise InfrastructureError(rollouts[0].error)
        if not winner.consensus:
            return self.ended(AnswerStatus.NO_CONSENSUS, _why_none(queries))
        if q.verified_sql is not None:
            verified = await self._verified(q.verified_sql, database, winner)
            self.answer = replace(self.answer, verified=verified)
        if winner.share < q.minimum_share:
            return self.ended(AnswerStatus.LOW_AGREEMENT)
        return self._checked(await plan.run_winner(winner, database, a.keep_rows), winner)

    def _transcript_name(self, attempt: int) -> str:
        """Name a file by everything that a resumed attempt must share with the first try."""
        q = self.question
        asked = (q.question, q.evidence, q.database, self.answer.database_fingerprint)
        version = hashlib.sha256(repr(asked).encode("utf-8", "replace")).hexdigest()[:12]
        return f"{q.id}-{self.answer.scheduled_at:%Y%m%dT%H%MZ}-{attempt}-{version}.jsonl"

    def _checked(self, result: QueryResult, winner: Vote) -> NewAnswer:
        problem = (
            "" if alike(result, winner.digest) else "it returned something else when run again"
        )
        if result.status is not Status.OK:
            problem = result.error or result.status.value
        if problem:
            reason = f"the query that was agreed on failed: {problem}"
            return self.ended(AnswerStatus.ERROR, reason)
        table = result_table(result.columns, result.rows, result.row_count)
        broken = self.question.expectations.broken_by(table)
        if self.answer.verified == Verified.DIFFERS:
            broken = ["it differs from the verified SQL's result", *broken]
        if broken:
            return self.ended(AnswerStatus.REFUTED, "; ".join(broken))
        return replace(
            self.answer,
            status=AnswerStatus.ANSWERED,
            sql=winner.sql,
            table=table,
            digest=result.near_multiset,
        )

    async def _verified(self, sql: str, database: Path, winner: Vote) -> Verified:
        limits = Limits(seconds=self.answerer.settings.query_seconds)
        result = await self.answerer.sandbox.aexecute(database, clean_sql(sql), limits)
        if result.status is not Status.OK:
            _log.warning("the verified SQL of question %s: %s", self.question.id, result.error)
            return Verified.ERROR
        return Verified.MATCH if alike(result, winner.digest) else Verified.DIFFERS

    def ended(self, status: AnswerStatus, reason: str = "") -> NewAnswer:
        """Return what is known of an answer without a result."""
        return replace(self.answer, status=status, error=reason)


def _sampled_query(rollout: Rollout, winner: Vote) -> SampledQuery:
    voted = rollout.submission.has_vote
    status = Status.WRITE.value if rollout.write_attempts else rollout.status or rollout.stop_reason
    return SampledQuery(
        sql=rollout.sql,
        status=status if rollout.valid else Status.INFRASTRUCTURE.value,
        digest=rollout.digest,
        row_count=rollout.row_count,
        voted=voted,
        chosen=rollout.sample in winner.members,
        turns=rollout.turns,
        prompt_tokens=rollout.prompt_tokens,
        completion_tokens=rollout.completion_tokens,
        seconds=rollout.seconds,
        error=rollout.error,
    )


def _why_none(queries: Sequence[SampledQuery]) -> str:
    """Say how the queries ended when none could vote: ``5 error, 3 empty``."""
    ends = Counter("empty" if q.status == Status.OK else q.status for q in queries)
    if set(ends) == {"empty"}:
        many = counted(len(queries), "candidate")
        return f"all {many} returned no rows" if queries[1:] else "the candidate returned no rows"
    counts = ", ".join(f"{count} {name}" for name, count in ends.most_common())
    example = next((q.error for q in queries if q.error), "")
    return f"no candidate returned rows ({counts})" + (f": {example}" if example else "")
