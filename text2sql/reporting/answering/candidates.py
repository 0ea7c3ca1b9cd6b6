"""From the rollouts of a question to the candidates of its vote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from text2sql.judge.equality import same
from text2sql.judge.voting import Vote
from text2sql.reporting.model.answer import AnswerCandidate
from text2sql.rollouts.store import Rollout
from text2sql.sandbox import Status


def candidate_of(rollout: Rollout, ballot: Vote) -> AnswerCandidate:
    """Return what is stored of a rollout after the vote."""
    voted = rollout.submission.has_vote
    return AnswerCandidate(
        sql=rollout.sql,
        status=_status(rollout),
        digest=rollout.digest,
        row_count=rollout.row_count,
        voted=voted,
        chosen=voted and same(rollout.digest, ballot.digest),
        turns=rollout.turns,
        prompt_tokens=rollout.prompt_tokens,
        completion_tokens=rollout.completion_tokens,
        seconds=rollout.seconds,
        error=rollout.error,
    )


def _status(rollout: Rollout) -> str:
    """Return how a candidate ended: how its SQL ran, or why there is none."""
    if not rollout.valid:
        return Status.INFRASTRUCTURE.value
    if rollout.write_attempts:
        return Status.WRITE.value
    return rollout.status or rollout.stop_reason


def why_none(candidates: Sequence[AnswerCandidate]) -> str:
    """Say what became of the candidates where none could vote: ``5 error, 3 empty``."""
    ends = Counter("empty" if c.status == Status.OK else c.status for c in candidates)
    counted = ", ".join(f"{count} {name}" for name, count in ends.most_common())
    example = next((c.error for c in candidates if c.error), "")
    return f"no candidate returned rows ({counted})" + (f": {example}" if example else "")
