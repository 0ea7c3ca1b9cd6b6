"""Many rollouts: bounded concurrency, a durable store, and only what is missing is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from text2sql.agent.loop import run_episode
from text2sql.agent.settings import AgentSettings
from text2sql.common.progress import Progress
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.policy.base import Policy, Sampling
from text2sql.questions import Question
from text2sql.rollouts.judged import judge_episode, origin_of
from text2sql.rollouts.store import Rollout, RolloutStore, drawn_as
from text2sql.rollouts.wanted import Count, Places
from text2sql.sandbox import Sandbox

__all__ = [
    "Drawn",
    "Keeper",
    "Rollout",
    "RolloutStore",
    "collect",
    "draw_rollouts",
    "sample_rollouts",
]

_FAILURES_IN_A_ROW = 2


@dataclass(frozen=True)
class Keeper:
    """Who is given every rollout, stored or new; ``transcripts`` asks for those of stored ones."""

    keep: Callable[[Rollout], None]
    transcripts: bool = False


@dataclass(frozen=True)
class Drawn:
    """What there is after a call: valid rollouts, and spoilt ones with the error of one."""

    valid: int
    spoilt: int
    error: str = ""


async def draw_rollouts(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult] | None,
    policy: Policy,
    sandbox: Sandbox,
    settings: AgentSettings,
    sampling: Sampling,
    samples: int,
    store: RolloutStore,
    concurrency: int = 64,
    on_progress: Progress | None = None,
    first_sample: int = 0,
    run_id: str = "",
    keeper: Keeper | None = None,
) -> Drawn:
    """Draw rollouts ``first_sample`` to ``first_sample + samples - 1`` of every question.

    Valid rollouts in the store that were drawn by the same policy, prompts and sampling count;
    the rest is asked, and each is stored as it finishes and forgotten: memory stays flat. Without
    ``golds`` submissions are executed and not judged. A rollout that the infrastructure spoilt
    is asked again by the next call. Raises Text2SqlError for a missing database or gold result
    before anything is asked, and InfrastructureError once nothing but failures comes (twice
    ``concurrency`` in a row).
    """
    await asyncio.to_thread(sandbox.check, [question.database for question in questions])
    _require_golds(questions, golds)
    places = Places(questions, range(first_sample, first_sample + samples))
    work = _Work(golds, policy, sandbox, settings, sampling, store, run_id, places, keeper)
    work.count_stored()
    try:
        await work.run(concurrency, on_progress)
    finally:
        store.close()
    return Drawn(places.valid, places.total - places.valid, work.error)


async def sample_rollouts(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult] | None,
    policy: Policy,
    sandbox: Sandbox,
    settings: AgentSettings,
    sampling: Sampling,
    samples: int,
    store: RolloutStore,
    concurrency: int = 64,
    on_progress: Progress | None = None,
    first_sample: int = 0,
    run_id: str = "",
    transcripts: bool = True,
) -> list[Rollout]:
    """Do what ``draw_rollouts`` does, and return all the rollouts in order.

    A rollout that the infrastructure spoilt is returned as such. Without ``transcripts`` the
    returned ones have no messages and calls: some 1 KB each.
    """
    found: dict[tuple[str, int], Rollout] = {}

    def keep(rollout: Rollout) -> None:
        found[rollout.key, rollout.sample] = rollout if transcripts else _brief(rollout)

    await draw_rollouts(
        questions,
        golds,
        policy,
        sandbox,
        settings,
        sampling,
        samples,
        store,
        concurrency,
        on_progress,
        first_sample,
        run_id,
        Keeper(keep, transcripts),
    )
    drawn = range(first_sample, first_sample + samples)
    return [found[question.key, sample] for question in questions for sample in drawn]


def _brief(rollout: Rollout) -> Rollout:
    return replace(rollout, messages=[], calls=[])


def collect(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult] | None,
    policy: Policy,
    *arguments: Any,
    **options: Any,
) -> list[Rollout]:
    """Do what ``sample_rollouts`` does, from code that is not async, and close the policy."""

    async def draw() -> list[Rollout]:
        try:
            return await sample_rollouts(questions, golds, policy, *arguments, **options)
        finally:
            await policy.close()

    return asyncio.run(draw())


def _require_golds(questions: Sequence[Question], golds: Mapping[str, GoldResult] | None) -> None:
    if golds is None:
        return
    if lacking := [question.key for question in questions if question.key not in golds]:
        raise Text2SqlError(
            f"{len(lacking)} questions have no gold result, {lacking[0]} for one; run gold first."
        )


class _Work:
    """One call's rollouts: a few workers take from one list, so that memory stays flat."""

    def __init__(
        self,
        golds: Mapping[str, GoldResult] | None,
        policy: Policy,
        sandbox: Sandbox,
        settings: AgentSettings,
        sampling: Sampling,
        store: RolloutStore,
        run_id: str,
        places: Places,
        keeper: Keeper | None,
    ) -> None:
        self.golds = golds
        self.policy = policy
        self.sandbox = sandbox
        self.settings = settings
        self.sampling = sampling
        self.store = store
        self.places = places
        self.keeper = keeper or Keeper(lambda rollout: None)
        origin = origin_of(policy.info, settings, sampling)
        self.origin = origin | {"run_id": run_id}
        names = ("policy_revision", "prompt_revision", "sampling")
        self.drawn_as = drawn_as(*(origin[name] for name in names))
        self.failures = 0
        self.error = ""

    def count_stored(self) -> None:
        """Note what the store has of what is wanted."""
        for rollout in self.store.scan(self.keeper.transcripts):
            if rollout.drawn_as == self.drawn_as and self.places.note(rollout):
                self.keeper.keep(rollout)

    async def run(self, concurrency: int, on_progress: Progress | None) -> None:
        """Draw what is missing; the first error that is not a rollout's own ends all."""
        report = Count(self.places, on_progress)
        lacking = self.places.total - self.places.valid
        queue = self.places.missing()
        workers = [
            asyncio.create_task(self._work(queue, _FAILURES_IN_A_ROW * concurrency, report))
            for _ in range(min(concurrency, lacking))
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, queue: Iterator[tuple[Question, int]], limit: int, report: Count) -> None:
        for question, sample in queue:
            rollout = await self._one(question, sample)
            await asyncio.to_thread(self.store.append, rollout)
            self.places.note(rollout)
            self.keeper.keep(rollout)
            self.failures = 0 if rollout.valid else self.failures + 1
            self.error = self.error if rollout.valid else rollout.error
            report.one_more()
            if self.failures >= limit:
                raise InfrastructureError(
                    f"{self.failures} rollouts in a row failed, the last with: {rollout.error} "
                    f"Finished rollouts are kept in {self.store.path}; run again to go on."
                )

    async def _one(self, question: Question, sample: int) -> Rollout:
        episode = await run_episode(
            question, self.policy, self.sandbox, self.settings, self.sampling
        )
        gold = self.golds[question.key] if self.golds is not None else None
        return await asyncio.to_thread(
            judge_episode, episode, question, gold, self.sandbox, self.origin | {"sample": sample}
        )
