"""Let a policy answer a file of questions, with rollouts that are stored and resumed."""

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
    """A policy's answer to one question.

    ``sql`` is the query of the only rollout, or of the one that won the vote; empty if nothing was
    submitted or no rollout has a vote. ``vote`` is None for a single rollout. ``rollouts`` have no
    transcripts.
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
        """The kind of rollouts in names of files: greedy, sampled, single-turn-greedy, …"""
        kind = "sampled" if self.sampling.temperature else "greedy"
        return kind if self.settings.mode == "agentic" else f"single-turn-{kind}"


def store_name(file: Path, asked: Sequence[Question], drawing: Drawing, revision: str) -> str:
    """Name the file that stores rollouts after everything that they depend on.

    The name has the policy's ``revision`` and a fingerprint of what is asked: the bytes of the
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
    """Ask every question, and return the answers in order; gold is not used.

    Only rollouts that the store lacks are drawn. Raises InfrastructureError if some are still lost
    after the retries, because they could change a vote or the accuracy. The valid ones stay in the
    store.
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
    if lost:
        raise InfrastructureError(
            f"{len(lost)} of {counted(len(rollouts), 'rollout')} failed {1 + _RETRIES} times, one "
            f"of {lost[0].key} with: {lost[0].error}; the others are stored in {store.path}. Run "
            "it again: it only draws the missing ones."
        )
    answers = []
    for place, question in enumerate(questions):
        # Each question's rollouts are adjacent.
        group = tuple(rollouts[place * drawing.votes : (place + 1) * drawing.votes])
        chosen = vote_of(group) if len(group) > 1 else None
        sql = chosen.sql if chosen else group[0].sql or ""
        answers.append(Predicted(question, sql, group, chosen))
    return answers
