"""How hard a question is for a policy, and which questions it can learn from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult, Verdict
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout


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
    WEAK = "weak"
    """Trainable, but its reward strength is below the bound or unknown."""


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


@dataclass(frozen=True)
class Bounds:
    """How often a question must be solved to be kept.

    ``least`` to ``most`` times, and never every time; ``most`` of None asks for the latter
    only. With fewer than ``minimum_valid`` valid rollouts nothing is said of a question.
    """

    least: int = 1
    most: int | None = None
    minimum_valid: int = 6

    def __post_init__(self) -> None:
        """Refuse bounds that keep nothing, or groups in which all rewards are equal."""
        if self.least < 1 or self.minimum_valid < 2:
            raise Text2SqlError("A kept question is solved at least once, of two valid rollouts.")
        if self.most is not None and self.most < self.least:
            raise Text2SqlError(
                f"Questions solved {self.least} to {self.most} times: there are none; set "
                "most_solved to least_solved or more."
            )

    def kind(self, solved: int, valid: int) -> Kind:
        """Return what the bounds say of a question with a usable gold result."""
        if valid < self.minimum_valid:
            return Kind.UNKNOWN
        if solved < self.least:
            return Kind.TOO_HARD
        if solved == valid or (self.most is not None and solved > self.most):
            return Kind.TOO_EASY
        return Kind.TRAINABLE


_SPOILT, _WRONG, _RIGHT = 1, 2, 3


def _hash(rollout: Rollout) -> int:
    said = (rollout.key, rollout.sample, rollout.verdict, rollout.digest, rollout.sql)
    return int.from_bytes(hashlib.sha256(repr(said).encode()).digest()[:8])


class Tally:
    """What became of many rollouts, in one byte each: rollouts are read one by one and let go.

    Of each (question, sample) the first valid rollout counts. ``error`` is what the first that
    the infrastructure spoilt says.
    """

    def __init__(self, rollouts: Iterable[Rollout] = ()) -> None:
        self._marks: dict[str, bytearray] = {}
        self._content = 0
        self.error = ""
        for rollout in rollouts:
            self.take(rollout)

    def take(self, rollout: Rollout) -> None:
        """Count one more rollout."""
        marks = self._marks.setdefault(rollout.key, bytearray())
        if len(marks) <= rollout.sample:
            marks.extend(bytes(rollout.sample + 1 - len(marks)))
        if marks[rollout.sample] in (_WRONG, _RIGHT):
            return
        if rollout.valid:
            marks[rollout.sample] = _RIGHT if rollout.verdict == Verdict.MATCH else _WRONG
            self._content ^= _hash(rollout)
        else:
            marks[rollout.sample] = _SPOILT
            self.error = self.error or rollout.error

    @property
    def content(self) -> str:
        """A fingerprint of what was submitted and what became of it, in whatever order it came."""
        return f"{self._content:016x}"

    def solved(self, key: str) -> int:
        """Return how many rollouts of a question match the gold result."""
        return self._marks.get(key, b"").count(_RIGHT)

    def valid(self, key: str) -> int:
        """Return how many rollouts of a question say something about the policy."""
        return self.solved(key) + self._marks.get(key, b"").count(_WRONG)

    @property
    def right(self) -> int:
        """How many rollouts match, of all questions."""
        return sum(map(self.solved, self._marks))

    @property
    def invalid(self) -> int:
        """How many (question, sample) have no valid rollout but a spoilt one."""
        return sum(marks.count(_SPOILT) for marks in self._marks.values())

    def __len__(self) -> int:
        """Return how many (question, sample) have a rollout, valid or not."""
        return sum(len(marks) - marks.count(0) for marks in self._marks.values())


def usable(question: Question, golds: Mapping[str, GoldResult]) -> bool:
    """Say whether a question's gold result can tell right from wrong."""
    gold = golds.get(question.key)
    return gold is not None and gold.usable


def rate(
    questions: Iterable[Question],
    golds: Mapping[str, GoldResult],
    tally: Tally,
    bounds: Bounds = Bounds(),
) -> list[Difficulty]:
    """Rate every question by how many of its valid rollouts match."""
    found = []
    for question in questions:
        solved, valid = tally.solved(question.key), tally.valid(question.key)
        kind = bounds.kind(solved, valid) if usable(question, golds) else Kind.UNUSABLE
        found.append(Difficulty(question.key, solved, valid, kind))
    return found


def rate_questions(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    rollouts: Iterable[Rollout],
    minimum_valid: int,
) -> list[Difficulty]:
    """Rate every question whose rollouts are at hand; all are kept that are solved sometimes."""
    return rate(questions, golds, Tally(rollouts), Bounds(minimum_valid=minimum_valid))


def leave_out_weak(
    ratings: Iterable[Difficulty], strength: Mapping[str, float | None], minimum: float
) -> list[Difficulty]:
    """Rate as weak what would be trained on but does not show the minimum reward strength."""
    return [
        replace(rating, kind=Kind.WEAK)
        if rating.kind is Kind.TRAINABLE and (strength.get(rating.key) or 0.0) < minimum
        else rating
        for rating in ratings
    ]


def select(
    questions: Iterable[Question], ratings: Iterable[Difficulty], seed: int
) -> list[Question]:
    """Return the trainable questions, shuffled: the same seed gives the same order."""
    kept = {rating.key for rating in ratings if rating.kind is Kind.TRAINABLE}
    chosen = [question for question in questions if question.key in kept]
    Random(seed).shuffle(chosen)
    return chosen
