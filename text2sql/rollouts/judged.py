"""From an episode to the record of a rollout: its submission is executed and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from text2sql.agent.loop import Episode
from text2sql.agent.prompts import prompt_revision
from text2sql.agent.settings import AgentSettings
from text2sql.errors import InfrastructureError
from text2sql.judge.verdicts import REWARD, GoldResult, Verdict, execute_submission, verdict_of
from text2sql.policy import PolicyInfo, Sampling
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout
from text2sql.sandbox import QueryResult, Sandbox, Status


def origin_of(
    policy: PolicyInfo, settings: AgentSettings, sampling: Sampling | None
) -> dict[str, Any]:
    """Return the first fields of a record: who answers, and how; a rollout adds its ``sample``.

    Without ``sampling`` somebody else draws the replies, and nothing is known of how.
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

    ``origin`` is that of ``origin_of`` and which sample it is. Without ``gold`` the submission is
    executed and not judged, and text that is not UTF-8 does not fail it.
    """
    result = _executed(episode, question, sandbox, strict_text=gold is not None)
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
        submitted=episode.submitted,
    )


def _executed(
    episode: Episode, question: Question, sandbox: Sandbox, *, strict_text: bool
) -> QueryResult:
    try:
        return execute_submission(episode.sql, question.database, sandbox, strict_text=strict_text)
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
