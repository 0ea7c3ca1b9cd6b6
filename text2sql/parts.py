"""The parts of a split that scores are given for: subsets, difficulties, strong and weak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from text2sql.questions import Question

ALL, CORRECTED, SUBSET, DIFFICULTY, STRENGTH = (
    "all",
    "corrected",
    "subset",
    "difficulty",
    "strength",
)
PARTS = (ALL, CORRECTED, SUBSET, DIFFICULTY, STRENGTH)
"""The parts in the order in which tables show them."""


@dataclass(frozen=True)
class Part:
    """Some questions of a split by their keys: ``part`` is a kind, ``name`` which of that kind."""

    part: str
    name: str
    keys: Sequence[str]


@dataclass(frozen=True)
class Strengths:
    """Reward strength by question key; from ``bound`` on a question is strong.

    A question without a score is neither strong nor weak.
    """

    scores: Mapping[str, float | None]
    bound: float


def parts_of(questions: Sequence[Question], strengths: Strengths | None = None) -> list[Part]:
    """Return the whole split, then its subsets and difficulties, then the strong and the weak."""
    parts = [Part(ALL, "", [question.key for question in questions])]
    for part in (SUBSET, DIFFICULTY):
        names = dict.fromkeys(getattr(question, part) for question in questions)
        for name in filter(None, names):
            keys = [q.key for q in questions if getattr(q, part) == name]
            parts.append(Part(part, name, keys))
    return parts + (_by_strength(questions, strengths) if strengths else [])


def _by_strength(questions: Sequence[Question], strengths: Strengths) -> list[Part]:
    names: dict[str, list[str]] = {"strong": [], "weak": []}
    for question in questions:
        score = strengths.scores.get(question.key)
        if score is not None:
            names["strong" if score >= strengths.bound else "weak"].append(question.key)
    return [Part(STRENGTH, name, keys) for name, keys in names.items()]
