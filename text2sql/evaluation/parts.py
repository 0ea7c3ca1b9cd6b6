"""The parts of a split that scores are given for: subsets, difficulties, strong and weak."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from text2sql.questions import Question

ALL, CORRECTED, GOLD, SUBSET, DIFFICULTY, STRENGTH, DATABASE, RULE = (
    "all",
    "corrected",
    "gold",
    "subset",
    "difficulty",
    "strength",
    "database",
    "rule",
)
PARTS = (ALL, CORRECTED, GOLD, SUBSET, DIFFICULTY, STRENGTH)
"""The parts in the order in which tables show them.

Databases are many and shown apart; scores of the part ``rule`` are of the whole split, by another
rule than the official one.
"""
WITH_ROWS, EMPTY, FAILING = "gold with rows", "gold without rows", "gold that fails"


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


def parts_of(
    questions: Sequence[Question],
    strengths: Strengths | None = None,
    empty: Collection[str] = (),
    failing: Collection[str] = (),
) -> list[Part]:
    """Return the whole split, its subsets and difficulties, the strong and the weak, databases.

    ``empty`` are the keys of questions whose gold returns no row, ``failing`` of those whose gold
    does not run; where there are any, they and the others are parts of their own.
    """
    by_gold = _by_gold(questions, empty, failing)
    parts = [Part(ALL, "", [question.key for question in questions]), *by_gold]
    for part in (SUBSET, DIFFICULTY):
        names = dict.fromkeys(getattr(question, part) for question in questions)
        for name in filter(None, names):
            keys = [q.key for q in questions if getattr(q, part) == name]
            parts.append(Part(part, name, keys))
    by_strength = _by_strength(questions, strengths) if strengths else []
    return parts + by_strength + _by_database(questions)


def gold_part(key: str, empty: Collection[str], failing: Collection[str]) -> str:
    """Name a question's part by its gold: anything without rows matches none, nothing a failure."""
    return EMPTY if key in empty else FAILING if key in failing else WITH_ROWS


def _by_gold(
    questions: Sequence[Question], empty: Collection[str], failing: Collection[str]
) -> list[Part]:
    names: dict[str, list[str]] = {WITH_ROWS: [], EMPTY: [], FAILING: []}
    for question in questions:
        names[gold_part(question.key, empty, failing)].append(question.key)
    parts = [Part(GOLD, name, keys) for name, keys in names.items() if keys]
    return parts if names[EMPTY] or names[FAILING] else []


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
