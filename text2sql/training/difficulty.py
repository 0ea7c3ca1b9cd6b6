"""How hard questions are for a policy, and which of them it can learn from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Self

from pydantic import Field, model_validator

from text2sql.common.artifacts import rollouts_folder
from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult, Verdict
from text2sql.questions import Question
from text2sql.rollouts.cost import Estimate, estimate
from text2sql.rollouts.sets import RolloutSet
from text2sql.rollouts.store import Rollout, RolloutStore
from text2sql.sandbox.sql.repeatable import asks_outside
from text2sql.training.settings import Settings


class Kind(StrEnum):
    """How the filter classifies a question."""

    TRAINABLE = "trainable"
    """Solved sometimes: the rewards of a group differ, so the policy can learn from it."""
    TOO_EASY = "too_easy"
    TOO_HARD = "too_hard"
    UNKNOWN = "unknown"
    """Too few valid rollouts; the next run draws them again."""
    UNUSABLE = "unusable"
    """Its gold query fails, returns nothing, as any wrong query may, or changes by itself."""
    WEAK = "weak"
    """Trainable, but its reward strength is below the minimum or unknown."""


@dataclass(frozen=True)
class Difficulty:
    """One question's record: ``solved`` of ``valid`` rollouts match the gold result."""

    key: str
    solved: int
    valid: int
    kind: Kind


class Bounds(Settings):
    """How often a question must be solved to be kept."""

    least_solved: int = Field(
        default=1, ge=1, le=128, description="Keep questions that are solved at least so often."
    )
    most_solved: int = Field(
        default=0,
        ge=0,
        le=128,
        description="Keep questions that are solved at most so often; 0 for no limit. A question "
        "that is always solved is never kept.",
    )
    minimum_valid: int = Field(
        default=6, ge=2, le=128, description="A question with fewer valid rollouts is unknown."
    )

    @model_validator(mode="after")
    def _keep_something(self) -> Self:
        if 0 < self.most_solved < self.least_solved:
            raise ValueError(
                f"most_solved ({self.most_solved}) is below least_solved ({self.least_solved}): no "
                "question can be kept; set most_solved higher"
            )
        return self

    def kind(self, solved: int, valid: int) -> Kind:
        """Classify a question with a usable gold result."""
        if valid < self.minimum_valid:
            return Kind.UNKNOWN
        if solved < self.least_solved:
            return Kind.TOO_HARD
        if solved == valid or 0 < self.most_solved < solved:
            return Kind.TOO_EASY
        return Kind.TRAINABLE

    def check_samples(self, samples: int) -> None:
        """Raise Text2SqlError if no question with so many rollouts could be kept."""
        if self.minimum_valid > samples:
            raise Text2SqlError(
                f"training_prompts needs {counted(self.minimum_valid, 'valid rollout')} per "
                f"question (minimum_valid), but base_rollouts draws {samples} (samples): every "
                "question would be unknown; set minimum_valid lower or samples higher."
            )
        if self.least_solved >= samples:
            raise Text2SqlError(
                "training_prompts keeps questions solved at least "
                f"{counted(self.least_solved, 'time')} "
                f"(least_solved) but not every time, and base_rollouts draws {samples} (samples): "
                "no question can be kept; set least_solved lower or samples higher."
            )


_INVALID, _WRONG, _RIGHT = 1, 2, 3


class Tally:
    """The results of many rollouts, one byte each: the rollouts themselves are not kept.

    For each (question, sample) the first valid rollout counts. ``error`` is that of the first
    invalid one.
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
            content = (rollout.key, rollout.sample, rollout.verdict, rollout.digest, rollout.sql)
            digest = hashlib.sha256(repr(content).encode()).digest()
            self._content ^= int.from_bytes(digest[:8])  # XOR, so that the order does not matter
        else:
            marks[rollout.sample] = _INVALID
            self.error = self.error or rollout.error

    @property
    def content(self) -> str:
        """A fingerprint of the submissions and their verdicts, whatever their order."""
        return f"{self._content:016x}"

    def solved(self, key: str) -> int:
        """Return how many rollouts of a question match the gold result."""
        return self._marks.get(key, b"").count(_RIGHT)

    def valid(self, key: str) -> int:
        """Return how many rollouts of a question are valid."""
        return self.solved(key) + self._marks.get(key, b"").count(_WRONG)

    @property
    def right(self) -> int:
        """How many rollouts of all questions match."""
        return sum(map(self.solved, self._marks))

    @property
    def invalid(self) -> int:
        """How many (question, sample) have only invalid rollouts."""
        return sum(marks.count(_INVALID) for marks in self._marks.values())

    def __len__(self) -> int:
        """Return how many (question, sample) have a rollout, valid or not."""
        return sum(len(marks) - marks.count(0) for marks in self._marks.values())


def usable(question: Question, golds: Mapping[str, GoldResult]) -> bool:
    """Say whether a question has a gold result that has rows and does not change by itself.

    Training takes hours: by then the answer to a query that asks the clock is another one.
    """
    gold = golds.get(question.key)
    return gold is not None and gold.usable and not asks_outside(question.sql)


def rate(
    questions: Iterable[Question], golds: Mapping[str, GoldResult], tally: Tally, bounds: Bounds
) -> list[Difficulty]:
    """Classify every question by how many of its valid rollouts match."""
    found = []
    for question in questions:
        solved, valid = tally.solved(question.key), tally.valid(question.key)
        kind = bounds.kind(solved, valid) if usable(question, golds) else Kind.UNUSABLE
        found.append(Difficulty(question.key, solved, valid, kind))
    return found


def mark_weak(
    ratings: Iterable[Difficulty], strength: Mapping[str, float | None], minimum: float
) -> list[Difficulty]:
    """Classify trainable questions as weak if their reward strength is below the minimum."""
    return [
        replace(rating, kind=Kind.WEAK)
        if rating.kind is Kind.TRAINABLE and (strength.get(rating.key) or 0.0) < minimum
        else rating
        for rating in ratings
    ]


def select(
    questions: Iterable[Question], ratings: Iterable[Difficulty], seed: int
) -> list[Question]:
    """Return the trainable questions in an order that the seed determines."""
    kept = {rating.key for rating in ratings if rating.kind is Kind.TRAINABLE}
    chosen = [question for question in questions if question.key in kept]
    Random(seed).shuffle(chosen)
    return chosen


def tally_rollouts(root: Path, rollouts: RolloutSet) -> Tally:
    """Count the outcomes of a set; its rollouts are read one by one and not kept."""
    tally, keys = Tally(), set(rollouts.keys)
    for path in rollouts.files(root):
        for rollout in RolloutStore(path).scan():
            if rollout.key in keys and rollout.sample < rollouts.samples:
                tally.take(rollout)
    return tally


def estimate_cost(root: Path, rollouts: RolloutSet) -> Estimate:
    """Estimate the cost of the missing rollouts from the cost of this policy's earlier ones."""
    tally = tally_rollouts(root, rollouts)
    missing = len(rollouts.keys) * rollouts.samples - (len(tally) - tally.invalid)
    mark = f"-{rollouts.policy_revision}-"
    folders = [f for f in sorted(rollouts_folder(root).glob("*")) if mark in f.name]
    return estimate(missing, folders)


def require_valid(tally: Tally) -> None:
    """Refuse to continue if more than half of the rollouts failed to say anything."""
    if len(tally) - tally.invalid < 0.5 * max(1, len(tally)):
        raise Text2SqlError(
            f"{tally.invalid} of {counted(len(tally), 'rollout')} failed, for example with: "
            f"{tally.error or 'nothing was sampled'}. Fix the cause and run it again: "
            "only what is missing is asked."
        )


def tallied(
    root: Path, sets: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[RolloutSet, Tally]]:
    """Return sets of rollouts with the counts of their outcomes; raise if one says nothing."""
    rollouts = {name: RolloutSet.from_dict(row) for name, row in sets.items()}
    found = {name: (one, tally_rollouts(root, one)) for name, one in rollouts.items()}
    for _, tally in found.values():
        require_valid(tally)
    return found
