"""Answer one question on one database: k rollouts, a vote, and the rows of the winner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from text2sql.agent.schema.tables import describe
from text2sql.agent.settings import AgentSettings
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.voting import Vote
from text2sql.policy.base import Policy, Sampling
from text2sql.questions import Question
from text2sql.rollouts.draw import Follower, RolloutPlan, vote_of
from text2sql.rollouts.store import Rollout
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status
from text2sql.sandbox.worker.databases import DAMAGED

_CHECK = Limits(seconds=2.0, keep_rows=100)
_QUOTED_CHARS = 100
_STOPS = {
    "submit": "an empty one was",
    "no_action": "the reply contained neither a tool call nor SQL",
    "turn_limit": "the turns ran out",
    "truncated": "a reply reached the token limit",
    "context_exceeded": "the conversation outgrew the context",
}


class AskStatus(StrEnum):
    """Whether a question got an answer."""

    ANSWERED = "answered"
    """The only rollout's query returned rows, or at least two of several returned the same."""
    NO_CONSENSUS = "no_consensus"
    """Several rollouts were asked, at least one returned rows, and no two returned the same."""
    NO_ANSWER = "no_answer"
    """No rollout submitted a query that ran and returned rows."""


@dataclass(frozen=True)
class AskResult:
    """The vote, the winning query's result with its first rows, and all rollouts.

    ``result`` is None unless the status is ``answered``; ``reason`` then says why.
    """

    status: AskStatus
    vote: Vote
    result: QueryResult | None
    rollouts: tuple[Rollout, ...]
    reason: str = ""

    @property
    def valid(self) -> list[Rollout]:
        """The rollouts that ended by themselves."""
        return [rollout for rollout in self.rollouts if rollout.valid]

    @property
    def lost(self) -> list[Rollout]:
        """The rollouts that the policy or the sandbox failed; they count in the share."""
        return [rollout for rollout in self.rollouts if not rollout.valid]


async def ask(
    question: Question,
    policy: Policy,
    sandbox: Sandbox,
    settings: AgentSettings,
    votes: int = 1,
    keep_rows: int = 1000,
    follower: Follower | None = None,
) -> AskResult:
    """Ask once greedily, or draw ``votes`` rollouts at temperature 1 and let them vote.

    ``follower`` sees the conversations while they happen. Raises Text2SqlError for an unusable
    database or an empty question before the policy is asked, InfrastructureError where every
    rollout failed.
    """
    if not question.question.strip():
        raise Text2SqlError("The question is empty; ask something.")
    sampling = Sampling(temperature=0.0 if votes == 1 else 1.0)
    plan = RolloutPlan(policy, sandbox, settings, sampling, votes, concurrency=votes)
    rollouts = tuple(await plan.rollouts([question], None, on_message=follower))
    if not any(rollout.valid for rollout in rollouts):
        raise InfrastructureError(f"{rollouts[0].error.rstrip('.')}.")
    winner = vote_of(rollouts)
    if not winner.consensus:
        return AskResult(AskStatus.NO_ANSWER, winner, None, rollouts, _fates(rollouts))
    if winner.votes == 1 and votes > 1:
        reason = f"no two of {votes} rollouts agree: {_fates(rollouts)}"
        return AskResult(AskStatus.NO_CONSENSUS, winner, None, rollouts, reason)
    result = await plan.run_winner(winner, question.database, keep_rows)
    if result.status is not Status.OK:
        reason = f"the query failed when it ran again: {result.error or result.status}"
        return AskResult(AskStatus.NO_ANSWER, winner, None, rollouts, reason)
    return AskResult(AskStatus.ANSWERED, winner, result, rollouts)


def fate(rollout: Rollout) -> str:
    """Say in a few words what became of a rollout's submission."""
    if not rollout.valid:
        return f"the policy or the sandbox failed ({rollout.error.rstrip('.')})"
    if rollout.sql is None:
        detail = rollout.error if rollout.stop_reason == "context_exceeded" else ""
        if rollout.stop_reason == "no_action":
            said = " ".join(str(rollout.messages[-1].get("content") or "").split())
            detail = repr(said[:_QUOTED_CHARS])
        reason = _STOPS[rollout.stop_reason] + (f": {detail}" if detail else "")
        return f"no query was submitted ({reason})"
    if rollout.status != Status.OK:
        return f"the submitted query failed: {rollout.error or rollout.status}"
    if rollout.write_attempts:
        return "it tried to write before it submitted a query, so it has no vote"
    count = rollout.row_count
    return f"the query returned {count or 'no'} row{'' if count == 1 else 's'}"


def _fates(rollouts: Sequence[Rollout]) -> str:
    """Say what became of the submissions, each kind once."""
    fates = [fate(rollout) for rollout in rollouts]
    if len(fates) == 1:
        return fates[0]
    return "; ".join(f"{fates.count(one)} of {len(fates)}: {one}" for one in dict.fromkeys(fates))


def require_usable(database: Path, sandbox: Sandbox) -> None:
    """Let SQLite look through a database's pages, for two seconds at most, and read its schema.

    Violated constraints (a NULL in a NOT NULL column) are not damage. Raises Text2SqlError for a
    database that cannot be read or is damaged.
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
