"""The slices of a split that scores are given for: subsets, difficulties, strong and weak."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from text2sql.questions import Question

ALL, CORRECTED, GOLD, SUBSET = "all", "corrected", "gold", "subset"
DIFFICULTY, STRENGTH, DATABASE, RULE = "difficulty", "strength", "database", "rule"
SLICES = (ALL, CORRECTED, GOLD, SUBSET, DIFFICULTY, STRENGTH)
"""The kinds of slices in the order in which tables show them.

Databases are many and have tables of their own; scores of the kind ``rule`` are of the whole
split, by another rule than the official one.
"""
WITH_ROWS, EMPTY, FAILING = "gold with rows", "gold without rows", "gold that fails"


@dataclass(frozen=True)
class Slice:
    """Some questions of a split by their keys; ``name`` says which one of its ``kind`` it is."""

    kind: str
    name: str
    keys: Sequence[str]


@dataclass(frozen=True)
class Strengths:
    """Reward strength by question key; from ``bound`` on a question is strong.

    A question without a score is neither strong nor weak.
    """

    scores: Mapping[str, float | None]
    bound: float


def slices_of(
    questions: Sequence[Question],
    strengths: Strengths | None = None,
    empty: Collection[str] = (),
    failing: Collection[str] = (),
) -> list[Slice]:
    """Return the whole split, its subsets and difficulties, strong and weak questions, databases.

    ``empty`` are the keys of questions whose gold returns no row, ``failing`` of those whose gold
    does not run; if there are any, they and the others are slices of their own.
    """
    kinds = (WITH_ROWS, EMPTY, FAILING)
    by_gold = _by(GOLD, questions, lambda one: gold_slice(one.key, empty, failing), kinds)
    if [found.name for found in by_gold] == [WITH_ROWS]:
        by_gold = []  # the same as the whole split
    slices = [Slice(ALL, "", [question.key for question in questions]), *by_gold]
    slices += _by(SUBSET, questions, lambda question: question.subset)
    slices += _by(DIFFICULTY, questions, lambda question: question.difficulty)
    if strengths:
        known = {key: score for key, score in strengths.scores.items() if score is not None}
        measured = [question.key for question in questions if question.key in known]
        strong = [key for key in measured if known[key] >= strengths.bound]
        weak = [key for key in measured if known[key] < strengths.bound]
        slices += [Slice(STRENGTH, "strong", strong), Slice(STRENGTH, "weak", weak)]
    databases = _by(DATABASE, questions, lambda question: question.db_id)
    return slices + sorted(databases, key=lambda found: found.name)


def gold_slice(key: str, empty: Collection[str], failing: Collection[str]) -> str:
    """Name a question's slice by what its gold returns.

    Any result without rows matches gold without rows, and nothing matches gold that fails.
    """
    return EMPTY if key in empty else FAILING if key in failing else WITH_ROWS


def _by(
    kind: str,
    questions: Sequence[Question],
    name_of: Callable[[Question], str],
    order: Sequence[str] = (),
) -> list[Slice]:
    """Return a slice for each name; questions without a name are in none."""
    keys: dict[str, list[str]] = {name: [] for name in order}
    for question in questions:
        keys.setdefault(name_of(question), []).append(question.key)
    return [Slice(kind, name, found) for name, found in keys.items() if name and found]
