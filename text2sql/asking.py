"""Answer one question on one database: k rollouts, a vote, and the rows of the winner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from text2sql.agent import Episode, run_episode
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge import execute_submission
from text2sql.policy.base import Policy, Sampling
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status
from text2sql.schema import describe
from text2sql.settings import AgentSettings
from text2sql.voting import Candidate, Vote, vote

_GREEDY = Sampling(temperature=0.0)
_DRAWN = Sampling(temperature=1.0)


@dataclass(frozen=True)
class Answer:
    """The answer: the vote, the winning query's result with its first rows, and all episodes.

    ``result`` and ``episode``, the winner's, are None where nothing was agreed on; ``reason``
    then says why.
    """

    vote: Vote
    result: QueryResult | None
    episode: Episode | None
    episodes: tuple[Episode, ...]
    reason: str = ""


async def answer(
    question: Question,
    policy: Policy,
    sandbox: Sandbox,
    settings: AgentSettings,
    votes: int = 1,
    keep_rows: int = 1000,
) -> Answer:
    """Ask once greedily, or draw ``votes`` rollouts at temperature 1 and let them vote.

    Raises Text2SqlError for an unusable database or an empty question before the policy is
    asked, InfrastructureError where every rollout failed.
    """
    if not question.question.strip():
        raise Text2SqlError("The question is empty; ask something.")
    await asyncio.to_thread(describe, question.database, sandbox)
    sampling = _GREEDY if votes == 1 else _DRAWN
    episodes = await asyncio.gather(
        *(run_episode(question, policy, sandbox, settings, sampling) for _ in range(votes))
    )
    limits = Limits(keep_rows=keep_rows)
    tried = [_Tried(e, await _execute(e, question, sandbox, limits)) for e in episodes]
    valid = [one for one in tried if not one.failure]
    if not valid:
        raise InfrastructureError(tried[0].failure)
    ballot = vote([one.candidate(index) for index, one in enumerate(valid)])
    if not ballot.consensus:
        return Answer(ballot, None, None, tuple(episodes), _why_none(valid))
    winner = valid[ballot.index]
    return Answer(ballot, winner.result, winner.episode, tuple(episodes))


@dataclass(frozen=True)
class _Tried:
    """An episode and the result of what it submitted."""

    episode: Episode
    result: QueryResult

    @property
    def failure(self) -> str:
        """Why the episode says nothing: the policy or the sandbox failed."""
        if self.episode.stop_reason == "infrastructure":
            return self.episode.error
        return self.result.error if self.result.status is Status.INFRASTRUCTURE else ""

    def candidate(self, index: int) -> Candidate:
        """Return the episode's vote."""
        valid = self.result.status is Status.OK and self.result.complete
        sql = self.episode.sql or ""
        return Candidate(index, sql, self.result.digest, self.result.row_count, valid)


async def _execute(
    episode: Episode, question: Question, sandbox: Sandbox, limits: Limits
) -> QueryResult:
    return await asyncio.to_thread(
        execute_submission, episode.sql, question.database, sandbox, limits
    )


def _why_none(valid: Sequence[_Tried]) -> str:
    """Say in a few words what became of the submissions, each kind once."""
    reasons = [_fate(one) for one in valid]
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    if len(valid) == 1:
        return reasons[0]
    return "; ".join(f"{count} of {len(valid)}: {reason}" for reason, count in counts.items())


def _fate(one: _Tried) -> str:
    if one.episode.sql is None:
        return f"no query was submitted ({one.episode.stop_reason})"
    if one.result.status is Status.OK:
        return "the query returned no rows"
    return f"the submitted query failed: {one.result.error or one.result.status}"
