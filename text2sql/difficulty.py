"""How hard a question is for a policy, and which questions it can learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from text2sql.judge import GoldResult, Verdict
from text2sql.questions import Question
from text2sql.rollouts import Rollout


class Kind(StrEnum):
    """What the filter says of a question."""

    TRAINABLE = "trainable"
    """Solved sometimes: the rewards of a group differ, so there is something to learn."""
    TOO_EASY = "too_easy"
    TOO_HARD = "too_hard"
    UNKNOWN = "unknown"
    """Too few valid rollouts to say; it is asked again on the next run."""
    UNUSABLE = "unusable"
    """Its gold query fails or returns nothing, so any query that returns nothing is right."""


@dataclass(frozen=True)
class Difficulty:
    """One question's record: ``solved`` of ``valid`` rollouts match the gold result."""

    key: str
    solved: int
    valid: int
    kind: Kind

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return asdict(self)


def usable(question: Question, golds: Mapping[str, GoldResult]) -> bool:
    """Say whether a question's gold result can tell right from wrong."""
    gold = golds.get(question.key)
    return gold is not None and gold.usable and not gold.empty


def rate_questions(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    rollouts: Iterable[Rollout],
    minimum_valid: int,
) -> list[Difficulty]:
    """Rate every question by the share of its valid rollouts that match.

    Rollouts that the infrastructure spoilt are not valid; with fewer than ``minimum_valid``
    a question is unknown, whatever the rest say.
    """
    verdicts: dict[str, list[str]] = {}
    for rollout in rollouts:
        if rollout.valid:
            verdicts.setdefault(rollout.key, []).append(rollout.verdict)
    return [
        _rate(question.key, verdicts.get(question.key, []), usable(question, golds), minimum_valid)
        for question in questions
    ]


def _rate(key: str, verdicts: Sequence[str], is_usable: bool, minimum_valid: int) -> Difficulty:
    solved, valid = sum(verdict == Verdict.MATCH for verdict in verdicts), len(verdicts)
    if not is_usable:
        kind = Kind.UNUSABLE
    elif valid < minimum_valid:
        kind = Kind.UNKNOWN
    elif solved == valid:
        kind = Kind.TOO_EASY
    else:
        kind = Kind.TRAINABLE if solved else Kind.TOO_HARD
    return Difficulty(key, solved, valid, kind)
