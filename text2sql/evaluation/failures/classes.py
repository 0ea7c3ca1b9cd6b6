"""The class of each failed rollout, and how many questions fall into each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from text2sql.evaluation.failures.sql_difference import differences
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout

NO_ROWS = "no rows returned"
OTHER = "another error"
_CLASSES = {
    "no such column": r"no such column|has no column named",
    "no such table": r"no such table",
    "no such function": r"no such function|wrong number of arguments to function",
    "ambiguous column": r"ambiguous column name",
    "wrong use of an aggregate": r"misuse of (aliased )?(aggregate|window)|aggregate functions are",
    "columns do not fit": r"sub-select returns|do not have the same number of result columns|"
    r"row value misused|(values|columns) .* do(es)? not match|ORDER BY term does not match",
    "syntax error": r"syntax error|incomplete input|unrecognized token|unterminated",
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _CLASSES.items()}


def error_class(message: str) -> str:
    """Return the class of an error message of SQLite, ``another error`` where none fits."""
    return next((name for name, one in _PATTERNS.items() if one.search(message)), OTHER)


@dataclass(frozen=True)
class ClassCount:
    """One class: its verdict, how many questions have it, and the first keys of them."""

    verdict: str
    name: str
    count: int
    keys: tuple[str, ...]


def classes_of(rollout: Rollout, gold: str) -> list[str]:
    """Return the classes of a rollout's failure; none where it matches or says nothing.

    An error has the class of SQLite's message, a wrong result those in which its query differs
    from gold; any other verdict is its own class.
    """
    if rollout.verdict == Verdict.MATCH or not rollout.valid:
        return []
    if rollout.verdict == Verdict.ERROR:
        return [error_class(rollout.error)]
    if rollout.verdict == Verdict.WRONG:
        empty = [NO_ROWS] if not rollout.row_count else []
        return [*differences(rollout.sql or "", gold), *empty]
    return [rollout.verdict.replace("_", " ")]


def count_classes(
    classes: Mapping[str, Sequence[str]], verdicts: Mapping[str, str], shown: int = 5
) -> list[ClassCount]:
    """Count questions by class, the most frequent first; one question may have several.

    ``classes`` and ``verdicts`` go by question key; ``shown`` keys stand for each class.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for key, names in classes.items():
        for name in names:
            found.setdefault((verdicts[key], name), []).append(key)
    counts = [
        ClassCount(verdict, name, len(keys), tuple(keys[:shown]))
        for (verdict, name), keys in found.items()
    ]
    return sorted(counts, key=lambda one: (-one.count, one.name))


def classify(
    rollouts: Sequence[Rollout], questions: Mapping[str, Question]
) -> dict[str, list[str]]:
    """Return the classes of each failed rollout by question key."""
    found = {r.key: classes_of(r, questions[r.key].sql) for r in rollouts if r.key in questions}
    return {key: names for key, names in found.items() if names}
