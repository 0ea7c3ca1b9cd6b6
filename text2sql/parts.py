"""The parts of a split that scores are given for: subsets, difficulties, strong and weak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from text2sql.questions import Question

ALL, CORRECTED, SUBSET, DIFFICULTY, STRENGTH, DATABASE = (
    "all",
    "corrected",
    "subset",
    "difficulty",
    "strength",
    "database",
)
PARTS = (ALL, CORRECTED, SUBSET, DIFFICULTY, STRENGTH)
"""The parts in the order in which tables show them; databases are many and shown apart."""


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
    """Return the whole split, its subsets and difficulties, the strong and the weak, databases."""
    parts = [Part(ALL, "", [question.key for question in questions])]
    for part in (SUBSET, DIFFICULTY):
        names = dict.fromkeys(getattr(question, part) for question in questions)
        for name in filter(None, names):
            keys = [q.key for q in questions if getattr(q, part) == name]
            parts.append(Part(part, name, keys))
    by_strength = _by_strength(questions, strengths) if strengths else []
    return parts + by_strength + _by_database(questions)


def _by_strength(questions: Sequence[Question], strengths: Strengths) -> list[Part]:
    names: dict[str, list[str]] = {"strong": [], "weak": []}
    for question in questions:
        score = strengths.scores.get(question.key)
        if score is not None:
            names["strong" if score >= strengths.bound else "weak"].append(question.key)
    return [Part(STRENGTH, name, keys) for name, keys in names.items()]


def _by_database(questions: Sequence[Question]) -> list[Part]:
    keys: dict[str, list[str]] = {}
    for question in questions:
        keys.setdefault(question.db_id, []).append(question.key)
    return [Part(DATABASE, name, found) for name, found in sorted(keys.items())]
