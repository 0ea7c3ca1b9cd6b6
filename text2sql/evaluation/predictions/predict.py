"""Let a policy answer a file of questions: kept rollouts, and what each question's come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from text2sql.agent.settings import AgentSettings
from text2sql.common.counting import counted
from text2sql.common.progress import OnProgress
from text2sql.datasets.reading.layout import SplitLayout, fingerprint
from text2sql.errors import InfrastructureError
from text2sql.judge.voting import Vote
from text2sql.policy.base import Policy, Sampling
from text2sql.questions import Question
from text2sql.rollouts.draw import RolloutPlan, vote_of
from text2sql.rollouts.store import Rollout, RolloutStore
from text2sql.sandbox import Sandbox

_RETRIES = 2


@dataclass(frozen=True)
class Predicted:
    """What a policy answers to one question.

    ``sql`` is the only rollout's query, or of several the one that their vote chose, without
    fences; empty where nothing was submitted or no rollout has a vote. ``vote`` is None for one
    rollout. ``rollouts`` come without their transcripts.
    """

    question: Question
    sql: str
    rollouts: tuple[Rollout, ...]
    vote: Vote | None = None


@dataclass(frozen=True)
class Drawing:
    """How a question is answered: ``votes`` rollouts, each drawn by ``sampling``."""

    votes: int
    sampling: Sampling
    settings: AgentSettings

    @property
    def name(self) -> str:
        """What sets these rollouts apart in the names of files: greedy, sampled, single-turn-…"""
        kind = "sampled" if self.sampling.temperature else "greedy"
        return kind if self.settings.mode == "agentic" else f"single-turn-{kind}"


def store_name(file: Path, asked: Sequence[Question], drawing: Drawing, revision: str) -> str:
    """Name the file that keeps rollouts, so that others are never taken for them.

    The name has the policy's ``revision`` and a fingerprint of all that is asked: the bytes of the
    questions ``file``, of every database and of its descriptions. Raises Text2SqlError where one
    cannot be read.
    """
    databases = {question.db_id: question.database for question in asked}
    content = fingerprint(SplitLayout(file.stem, file, databases))
    return f"{file.stem}-{drawing.name}-{revision}-{content[:12]}.jsonl"


async def predict(
    questions: Sequence[Question],
    policy: Policy,
    sandbox: Sandbox,
    drawing: Drawing,
    store: RolloutStore,
    concurrency: int = 16,
    on_progress: OnProgress | None = None,
) -> list[Predicted]:
    """Ask every question, and return the answers in order; gold is not looked at.

    Only what the store lacks is asked. Raises InfrastructureError if rollouts are still lost after
    the retries: a vote or an accuracy without them would be another one. The valid ones stay in
    the store.
    """
    plan = RolloutPlan(
        policy,
        sandbox,
        drawing.settings,
        drawing.sampling,
        drawing.votes,
        concurrency=concurrency,
        retries=_RETRIES,
    )
    rollouts = await plan.rollouts(questions, store, on_progress=on_progress, transcripts=False)
    lost = [rollout for rollout in rollouts if not rollout.valid]
    if not lost:
        return _predicted(questions, rollouts, drawing.votes)
    raise InfrastructureError(
        f"{len(lost)} of {counted(len(rollouts), 'rollout')} failed {1 + _RETRIES} times, one of "
        f"{lost[0].key} with: {lost[0].error}; the others are kept in {store.path}. Run it "
        "again: only what is missing is asked."
    )


def _predicted(
    questions: Sequence[Question], rollouts: Sequence[Rollout], votes: int
) -> list[Predicted]:
    """Give each question its rollouts, which lie one question after the other."""
    starts = range(0, len(rollouts), votes)
    groups = (tuple(rollouts[start : start + votes]) for start in starts)
    return [_answer(question, group) for question, group in zip(questions, groups, strict=True)]


def _answer(question: Question, group: tuple[Rollout, ...]) -> Predicted:
    if len(group) == 1:
        return Predicted(question, group[0].sql or "", group)
    chosen = vote_of(group)
    return Predicted(question, chosen.sql, group, chosen)
