"""Draw k rollouts of each question, retry those that were lost, vote, and run the winner.

A rollout is lost when the infrastructure fails: the policy server, a sandbox worker. It says
nothing about the policy, so it is asked again, and until then it counts as one of the k.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from text2sql.agent.loop import Episode, run_episode
from text2sql.agent.prompts import prompt_revision
from text2sql.agent.settings import AgentSettings
from text2sql.common.progress import OnProgress
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.reward import REWARD
from text2sql.judge.verdicts import GoldResult, Verdict, execute_submission, verdict_of
from text2sql.judge.voting import Submission, Vote, vote
from text2sql.policy.base import Message, Policy, PolicyInfo, Sampling
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout, RolloutStore, drawn_as
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status

_FAILURES_IN_A_ROW = 2  # of this many rounds of concurrent rollouts: then the server is down

Follower = Callable[[int, Message], None]
"""Called with a rollout's number, from 0, and each message as it joins its conversation."""


@dataclass(frozen=True)
class Drawn:
    """How many rollouts are valid after drawing and how many were lost, with an example error."""

    valid: int
    lost: int
    error: str = ""


@dataclass(frozen=True)
class RolloutPlan:
    """Who answers, how, and how often.

    Every question gets ``samples`` rollouts, ``concurrency`` of all at a time. Without ``golds``
    submissions are executed and not judged. Lost rollouts are asked again up to ``retries`` times.
    """

    policy: Policy
    sandbox: Sandbox
    settings: AgentSettings
    sampling: Sampling
    samples: int = 1
    golds: Mapping[str, GoldResult] | None = None
    concurrency: int = 64
    retries: int = 0
    run_id: str = ""

    async def draw(
        self,
        questions: Sequence[Question],
        store: RolloutStore | None,
        *,
        on_progress: OnProgress | None = None,
        on_lost: Callable[[Drawn, int], None] = lambda drawn, retries_left: None,
        on_message: Follower | None = None,
        keep: Callable[[Rollout], None] = lambda rollout: None,
        transcripts: bool = False,
    ) -> Drawn:
        """Draw what the store lacks; each rollout is stored as it ends and forgotten.

        Valid rollouts in the store that were drawn by the same policy, prompts and sampling count.
        Without a store nothing is kept but what ``keep`` takes: it is given every rollout, stored
        ones with their ``transcripts`` if asked for. ``on_lost`` hears what each round lost.
        Raises Text2SqlError for a missing database or gold result before anything is asked, and
        InfrastructureError after nothing but failures (twice ``concurrency`` in a row).
        """
        await asyncio.to_thread(self.sandbox.check, [question.database for question in questions])
        lacking = [q.key for q in questions if self.golds is not None and q.key not in self.golds]
        if lacking:
            raise Text2SqlError(
                f"{len(lacking)} questions have no gold result, for example {lacking[0]}; "
                "run gold first."
            )
        work = _Work(self, questions, store, on_message, keep)
        for rollout in store.scan(transcripts) if store else ():
            if rollout.drawn_as == work.drawn_as:
                work.note(rollout)
        try:
            for retries_left in reversed(range(1 + self.retries)):
                drawn = await work.round(on_progress)
                if not drawn.lost:
                    break
                on_lost(drawn, retries_left)
        finally:
            if store is not None:
                store.close()
        return drawn

    async def rollouts(
        self,
        questions: Sequence[Question],
        store: RolloutStore | None,
        *,
        on_progress: OnProgress | None = None,
        on_message: Follower | None = None,
        transcripts: bool = True,
    ) -> list[Rollout]:
        """Draw what the store lacks, and return all rollouts, question by question, by sample.

        Lost ones are among them. Without ``transcripts`` they have no messages and calls: some
        1 KB each. Raises what ``draw`` raises.
        """
        found: dict[tuple[str, int], Rollout] = {}

        def keep(rollout: Rollout) -> None:
            brief = rollout if transcripts else replace(rollout, messages=[], calls=[])
            found[rollout.key, rollout.sample] = brief

        await self.draw(
            questions, store, keep=keep, transcripts=transcripts,
            on_progress=on_progress, on_message=on_message,
        )  # fmt: skip
        return [found[q.key, sample] for q in questions for sample in range(self.samples)]

    async def run_winner(self, winner: Vote, database: Path, keep_rows: int) -> QueryResult:
        """Run the query that won a vote, with the limits it had when it was judged."""
        limits = Limits(keep_rows=keep_rows)
        return await self.sandbox.aexecute(database, winner.sql, limits)


def vote_of(rollouts: Iterable[Rollout | None]) -> Vote:
    """Vote among a question's rollouts, in the order of their samples; None was never drawn.

    Those lost or never drawn count in the share, and writers have no vote.
    """
    never = (Submission(sample, "", "", 0, valid=False) for sample in itertools.count())
    pairs = zip(rollouts, never, strict=False)
    return vote([rollout.submission if rollout else absent for rollout, absent in pairs])


@dataclass
class _Work:
    """The rollouts of one call: a few workers take from one list, so that memory stays flat.

    ``valid`` has a bit for each sample of a question that says whether its rollout is valid.
    """

    plan: RolloutPlan
    questions: Sequence[Question]
    store: RolloutStore | None
    on_message: Follower | None
    keep: Callable[[Rollout], None]
    failures: int = 0
    error: str = ""

    def __post_init__(self) -> None:
        plan = self.plan
        self.valid = dict.fromkeys((question.key for question in self.questions), 0)
        # Computed once: the prompt revision hashes all instructions.
        origin = origin_of(plan.policy.info, plan.settings, plan.sampling)
        self.origin = origin | {"run_id": plan.run_id}
        names = ("policy_revision", "prompt_revision", "sampling")
        self.drawn_as = drawn_as(*(origin[name] for name in names))

    async def round(self, on_progress: OnProgress | None) -> Drawn:
        """Ask once for all that is missing; an error that is no rollout's own ends all."""
        self.failures = 0
        done, total = self.count_valid(), len(self.valid) * self.plan.samples
        report = on_progress or (lambda done, total: None)
        report(done, total)

        async def work(queue: Iterator[tuple[Question, int]]) -> None:
            nonlocal done
            for question, sample in queue:
                await self._one(question, sample)
                done += 1
                report(done, total)

        queue = self.missing()
        count = min(self.plan.concurrency, total - done)
        workers = [asyncio.create_task(work(queue)) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            # gather leaves the others running when one fails.
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        valid = self.count_valid()
        return Drawn(valid, total - valid, self.error)

    def count_valid(self) -> int:
        return sum(bits.bit_count() for bits in self.valid.values())

    def note(self, rollout: Rollout) -> None:
        """Keep a rollout that is part of the plan; the latest of a sample counts."""
        if rollout.key in self.valid and 0 <= rollout.sample < self.plan.samples:
            bit, bits = 1 << rollout.sample, self.valid[rollout.key]
            self.valid[rollout.key] = bits | bit if rollout.valid else bits & ~bit
            self.keep(rollout)

    def missing(self) -> Iterator[tuple[Question, int]]:
        """Yield the questions and samples that have no valid rollout when their turn comes."""
        for question in self.questions:
            for sample in range(self.plan.samples):
                if not self.valid[question.key] >> sample & 1:
                    yield question, sample

    async def _one(self, question: Question, sample: int) -> None:
        plan, follower = self.plan, self.on_message
        follow = (lambda message: follower(sample, message)) if follower else None
        episode = await run_episode(
            question, plan.policy, plan.sandbox, plan.settings, plan.sampling, follow
        )
        gold = plan.golds[question.key] if plan.golds is not None else None
        # Executing and syncing block, which would stop every other rollout of the event loop.
        judged = (episode, question, gold, plan.sandbox, self.origin | {"sample": sample})
        rollout = await asyncio.to_thread(judge_episode, *judged)
        if self.store:
            await asyncio.to_thread(self.store.append, rollout)
        self.note(rollout)
        self.failures = 0 if rollout.valid else self.failures + 1
        self.error = self.error if rollout.valid else rollout.error
        if self.failures >= _FAILURES_IN_A_ROW * plan.concurrency:
            kept = f" Finished rollouts are kept in {self.store.path};" if self.store else ""
            raise InfrastructureError(
                f"{self.failures} rollouts in a row failed, the last with: {rollout.error}{kept} "
                "run it again to resume."
            )


def origin_of(
    policy: PolicyInfo, settings: AgentSettings, sampling: Sampling | None
) -> dict[str, Any]:
    """Return the first fields of a record: who answers, and how; a rollout adds its ``sample``.

    Without ``sampling`` the replies are drawn elsewhere, in a way that is not known here.
    """
    return {
        "policy": policy.name,
        "policy_revision": policy.revision,
        "prompt_revision": prompt_revision(settings),
        "mode": settings.mode,
        "sampling": asdict(sampling) if sampling else {},
    }


def judge_episode(
    episode: Episode,
    question: Question,
    gold: GoldResult | None,
    sandbox: Sandbox,
    origin: Mapping[str, Any],
) -> Rollout:
    """Execute what an episode submitted, judge it, and return the record.

    ``origin`` is that of ``origin_of`` with the sample's number. Without ``gold`` the submission
    is executed and not judged, and text that is not UTF-8 does not fail it.
    """
    try:
        result = execute_submission(
            episode.sql, question.database, sandbox, strict_text=gold is not None
        )
    except InfrastructureError as error:
        result = QueryResult(Status.INFRASTRUCTURE, error=str(error))
    verdict = _verdict(episode, result, gold)
    writes = episode.write_attempts + (result.status is Status.WRITE)
    return Rollout(
        **origin,
        key=question.key,
        messages=episode.messages,
        calls=[asdict(record) for record in episode.tool_log],
        sql=episode.sql,
        status=result.status.value if episode.sql is not None else "",
        verdict=verdict or "",
        digest=result.near,
        row_count=result.row_count,
        reward=REWARD[verdict] if verdict else None,
        write_attempts=writes,
        turns=episode.turns,
        prompt_tokens=episode.prompt_tokens,
        completion_tokens=episode.completion_tokens,
        seconds=round(episode.seconds, 6),
        stop_reason=episode.stop_reason,
        error=episode.error or (result.error if episode.sql is not None else ""),
        submitted=episode.submitted,
    )


def _verdict(episode: Episode, result: QueryResult, gold: GoldResult | None) -> Verdict | None:
    """Judge an episode; None where there is no gold and nothing went wrong in between."""
    if episode.stop_reason == "infrastructure" or result.status is Status.INFRASTRUCTURE:
        return Verdict.INFRASTRUCTURE
    if gold is None:
        return None
    if episode.write_attempts:
        return Verdict.WRITE
    if episode.stop_reason in ("truncated", "context_exceeded"):
        return Verdict.TRUNCATED
    return verdict_of(result, gold)
