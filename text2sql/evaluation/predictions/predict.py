"""Let a policy answer a file of questions, with rollouts that are stored and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    transcripts. ``missing`` counts those that were lost to the server or the sandbox, or never
    asked; ``error`` says why.
    """

    question: Question
    sql: str
    rollouts: tuple[Rollout, ...]
    vote: Vote | None = None
    missing: int = 0
    error: str = ""


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

    Only rollouts that the store lacks are drawn. What is still missing after the retries stands in
    the answers: one question that a server always refuses costs no other its answer. Raises
    InfrastructureError if no rollout at all is valid.
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
    found: dict[tuple[str, int], Rollout] = {}

    def keep(rollout: Rollout) -> None:
        found[rollout.key, rollout.sample] = replace(rollout, messages=[], calls=[])

    failure = ""
    try:
        await plan.draw(questions, store, keep=keep, on_progress=on_progress)
    except InfrastructureError as error:
        failure = str(error)
        if not any(rollout.valid for rollout in found.values()):
            raise
    if found and not any(rollout.valid for rollout in found.values()):
        first = next(iter(found.values()))
        raise InfrastructureError(
            f"{counted(len(found), 'rollout')} failed {1 + _RETRIES} times, one of {first.key} "
            f"with: {first.error.rstrip('.')}."
        )
    samples = range(drawing.votes)
    return [
        _answer(question, [found.get((question.key, sample)) for sample in samples], failure)
        for question in questions
    ]


def _answer(question: Question, drawn: Sequence[Rollout | None], failure: str) -> Predicted:
    """Let a question's rollouts vote; None stands for one that was never asked."""
    rollouts = tuple(rollout for rollout in drawn if rollout)
    lost = [rollout for rollout in rollouts if not rollout.valid]
    missing = len(drawn) - len(rollouts) + len(lost)
    error = (lost[0].error if lost else failure) if missing else ""
    if len(drawn) == 1:
        sql = rollouts[0].sql if rollouts and not lost else None
        return Predicted(question, sql or "", rollouts, None, missing, error)
    winner = vote_of(drawn)
    return Predicted(question, winner.sql, rollouts, winner, missing, error)
