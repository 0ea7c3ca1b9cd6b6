"""Many rollouts: bounded concurrency, a durable store, and only what is missing is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from text2sql.agent import Episode, run_episode
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge import REWARD, GoldResult, Verdict, execute_submission, verdict_of
from text2sql.policy.base import Policy, Sampling
from text2sql.progress import Progress
from text2sql.prompts import prompt_revision
from text2sql.questions import Question
from text2sql.rollout_store import Rollout, RolloutStore, drawn_as
from text2sql.sandbox import QueryResult, Sandbox, Status, check_database
from text2sql.settings import AgentSettings

__all__ = ["Rollout", "RolloutStore", "collect", "sample_rollouts"]

_FAILURES_IN_A_ROW = 2


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
    """Draw rollouts ``first_sample`` to ``first_sample + samples - 1`` of every question.

    Valid rollouts in the store that were drawn by the same policy, prompts and sampling count;
    the rest is asked, and each is stored as it finishes. Returns all of them in order. Without
    ``golds`` submissions are executed and not judged. A rollout that the infrastructure spoilt
    is returned as such and asked again by the next call. Without ``transcripts`` the returned
    ones have no messages and calls: many fit into memory. Raises Text2SqlError for a missing
    database or gold result before anything is asked, and InfrastructureError once nothing but
    failures comes (twice ``concurrency`` in a row).
    """
    _check(questions, golds)
    wanted = {(q.key, s): q for q in questions for s in range(first_sample, first_sample + samples)}
    work = _Work(golds, policy, sandbox, settings, sampling, store, run_id, transcripts)
    found = {
        (rollout.key, rollout.sample): rollout
        for rollout in store.read(transcripts)
        if rollout.valid and rollout.drawn_as == work.drawn_as
    }
    work.found = {place: found[place] for place in wanted if place in found}
    missing = [(place, question) for place, question in wanted.items() if place not in found]
    try:
        await work.run(missing, concurrency, on_progress)
    finally:
        store.close()
    return [work.found[place] for place in wanted]


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


def _check(questions: Sequence[Question], golds: Mapping[str, GoldResult] | None) -> None:
    for database in {question.database for question in questions}:
        check_database(database)
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
        transcripts: bool,
    ) -> None:
        self.golds = golds
        self.policy = policy
        self.sandbox = sandbox
        self.settings = settings
        self.sampling = sampling
        self.store = store
        self.transcripts = transcripts
        self.origin = {
            "policy": policy.info.name,
            "policy_revision": policy.info.revision,
            "prompt_revision": prompt_revision(settings),
            "mode": settings.mode,
            "sampling": asdict(sampling),
            "run_id": run_id,
        }
        self.drawn_as = drawn_as(policy.info.revision, prompt_revision(settings), asdict(sampling))
        self.found: dict[tuple[str, int], Rollout] = {}
        self.failures = 0

    async def run(
        self,
        missing: Sequence[tuple[tuple[str, int], Question]],
        concurrency: int,
        on_progress: Progress | None,
    ) -> None:
        """Draw what is missing; the first error that is not a rollout's own ends all."""
        queue = iter(missing)
        total = len(self.found) + len(missing)
        report = on_progress or (lambda done, all_: None)
        report(len(self.found), total)
        limit = _FAILURES_IN_A_ROW * concurrency
        workers = [
            asyncio.create_task(self._work(queue, limit, lambda: report(len(self.found), total)))
            for _ in range(min(concurrency, len(missing)))
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(
        self,
        queue: Iterator[tuple[tuple[str, int], Question]],
        limit: int,
        report: Callable[[], None],
    ) -> None:
        for (key, sample), question in queue:
            rollout = await self._one(question, sample)
            await asyncio.to_thread(self.store.append, rollout)
            self.found[key, sample] = rollout if self.transcripts else _brief(rollout)
            self.failures = 0 if rollout.valid else self.failures + 1
            report()
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


def _brief(rollout: Rollout) -> Rollout:
    return replace(rollout, messages=[], calls=[])


def judge_episode(
    episode: Episode,
    question: Question,
    gold: GoldResult | None,
    sandbox: Sandbox,
    origin: Mapping[str, Any],
) -> Rollout:
    """Execute what an episode submitted, judge it, and return the record.

    ``origin`` holds the record's first fields: who answered, how, and which sample it is. Without
    ``gold`` the submission is executed and not judged.
    """
    result = _executed(episode, question, sandbox)
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
        digest=result.digest,
        row_count=result.row_count,
        reward=REWARD[verdict] if verdict else None,
        write_attempts=writes,
        turns=episode.turns,
        prompt_tokens=episode.prompt_tokens,
        completion_tokens=episode.completion_tokens,
        seconds=round(episode.seconds, 6),
        stop_reason=episode.stop_reason,
        error=episode.error or (result.error if episode.sql is not None else ""),
    )


def _executed(episode: Episode, question: Question, sandbox: Sandbox) -> QueryResult:
    try:
        return execute_submission(episode.sql, question.database, sandbox)
    except InfrastructureError as error:
        return QueryResult(Status.INFRASTRUCTURE, error=str(error))


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
