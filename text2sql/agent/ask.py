"""Answer one question on one database: k rollouts, a vote, and the rows of the winner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from text2sql.agent.loop import Episode, StopReason, run_episode
from text2sql.agent.schema.tables import describe
from text2sql.agent.settings import AgentSettings
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.verdicts import execute_submission
from text2sql.judge.voting import Submission, Vote, vote
from text2sql.policy.base import Message, Policy, Sampling
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status
from text2sql.sandbox.worker.databases import DAMAGED

_GREEDY = Sampling(temperature=0.0)
_DRAWN = Sampling(temperature=1.0)
_CHECK = Limits(seconds=2.0, keep_rows=100)
_SAID_CHARS = 100
_STOPS: dict[StopReason, str] = {
    "submit": "an empty one was",
    "no_action": "the reply held neither a tool call nor SQL",
    "turn_limit": "the turns ran out",
    "truncated": "a reply reached the token limit",
    "context_exceeded": "the conversation outgrew the context",
    "infrastructure": "the policy or the sandbox failed",
}

Follower = Callable[[int, Message], None]
"""Called with a rollout's number, from 0, and each message as it joins its conversation."""


class Outcome(StrEnum):
    """What asking came to."""

    ANSWERED = "answered"
    """The only rollout's query returned rows, or at least two of several returned the same."""
    NO_CONSENSUS = "no_consensus"
    """Several rollouts voted, at least one returned rows, and no two returned the same."""
    NO_ANSWER = "no_answer"
    """No rollout submitted a query that ran and returned rows."""


@dataclass(frozen=True)
class Tried:
    """An episode and the result of what it submitted."""

    episode: Episode
    result: QueryResult

    @property
    def failure(self) -> str:
        """Why the episode says nothing: the policy or the sandbox failed."""
        if self.episode.stop_reason == "infrastructure":
            return self.episode.error
        return f"{self.result.error}." if self.result.status is Status.INFRASTRUCTURE else ""

    @property
    def fate(self) -> str:
        """What became of the submission, in a few words."""
        if self.episode.sql is None:
            return f"no query was submitted ({_STOPS[self.episode.stop_reason]}{self._detail})"
        if self.result.status is not Status.OK:
            return f"the submitted query failed: {self.result.error or self.result.status}"
        count = self.result.row_count
        return f"the query returned {count or 'no'} row{'' if count == 1 else 's'}"

    @property
    def _detail(self) -> str:
        """What was too long for the context, or what was said instead of a call."""
        if self.episode.stop_reason == "context_exceeded":
            return f": {self.episode.error}" if self.episode.error else ""
        said = " ".join(str(self.episode.messages[-1].get("content") or "").split())
        return f": {said[:_SAID_CHARS]!r}" if self.episode.stop_reason == "no_action" else ""

    def submission(self, index: int) -> Submission:
        """Return the episode's vote."""
        valid = self.result.status is Status.OK and self.result.complete
        sql = self.episode.sql or ""
        return Submission(index, sql, self.result.digest, self.result.row_count, valid)


@dataclass(frozen=True)
class Answer:
    """The answer: the vote, the winning query's result with its first rows, and all rollouts.

    ``result`` is None unless the outcome is ``answered``; ``reason`` then says why. ``tried``
    are the rollouts that voted, ``episodes`` all of them, those that the policy or the sandbox
    spoilt included.
    """

    outcome: Outcome
    vote: Vote
    result: QueryResult | None
    tried: tuple[Tried, ...]
    episodes: tuple[Episode, ...]
    reason: str = ""


async def answer(
    question: Question,
    policy: Policy,
    sandbox: Sandbox,
    settings: AgentSettings,
    votes: int = 1,
    keep_rows: int = 1000,
    follower: Follower = lambda number, message: None,
) -> Answer:
    """Ask once greedily, or draw ``votes`` rollouts at temperature 1 and let them vote.

    ``follower`` sees the conversations while they happen. Raises Text2SqlError for an unusable
    database or an empty question before the policy is asked, InfrastructureError where every
    rollout failed.
    """
    if not question.question.strip():
        raise Text2SqlError("The question is empty; ask something.")
    await asyncio.to_thread(describe, question.database, sandbox)
    sampling = _GREEDY if votes == 1 else _DRAWN

    def follow(number: int) -> Callable[[Message], None]:
        return lambda message: follower(number, message)

    episodes = await asyncio.gather(
        *(
            run_episode(question, policy, sandbox, settings, sampling, follow(n))
            for n in range(votes)
        )
    )
    limits = Limits(keep_rows=keep_rows)
    tried = [Tried(e, await _execute(e, question, sandbox, limits)) for e in episodes]
    valid = [one for one in tried if not one.failure]
    if not valid:
        raise InfrastructureError(tried[0].failure)
    return _decided(valid, tuple(episodes))


def _decided(valid: Sequence[Tried], episodes: tuple[Episode, ...]) -> Answer:
    ballot = vote([one.submission(index) for index, one in enumerate(valid)])
    if not ballot.consensus:
        outcome, reason = Outcome.NO_ANSWER, _fates(valid)
    elif ballot.votes == 1 and len(valid) > 1:
        outcome = Outcome.NO_CONSENSUS
        reason = f"no two of {len(valid)} rollouts agree: {_fates(valid)}"
    else:
        result = valid[ballot.index].result
        return Answer(Outcome.ANSWERED, ballot, result, tuple(valid), episodes)
    return Answer(outcome, ballot, None, tuple(valid), episodes, reason)


async def _execute(
    episode: Episode, question: Question, sandbox: Sandbox, limits: Limits
) -> QueryResult:
    return await asyncio.to_thread(
        execute_submission, episode.sql, question.database, sandbox, limits, strict_text=False
    )


def _fates(valid: Sequence[Tried]) -> str:
    """Say what became of the submissions, each kind once."""
    fates = [one.fate for one in valid]
    if len(valid) == 1:
        return fates[0]
    return "; ".join(
        f"{fates.count(fate)} of {len(fates)}: {fate}" for fate in dict.fromkeys(fates)
    )


def require_usable(database: Path, sandbox: Sandbox) -> None:
    """Let SQLite look through a database's pages, for two seconds at most, and read its schema.

    Broken rules of the schema (a NULL where none may be) are no damage. Raises Text2SqlError
    where the database cannot be read or is damaged.
    """
    found = sandbox.execute(database, f"PRAGMA quick_check({_CHECK.keep_rows})", _CHECK)
    if found.status is Status.INFRASTRUCTURE:
        raise Text2SqlError(f"{found.error}.")
    damage = [str(row[0]) for row in found.rows if str(row[0]).startswith("***")]
    if damage:
        first = damage[0].splitlines()[1:2] or damage
        raise Text2SqlError(f"{database}: {DAMAGED} ({first[0]}).")
    try:
        describe(database, sandbox)
    except InfrastructureError as error:
        raise Text2SqlError(str(error)) from error
