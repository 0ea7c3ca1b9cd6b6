"""A CSV line for every rollout that was scored: what the report's numbers are counted from."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from text2sql.evaluation.known_issues import Correction, judge_again
from text2sql.evaluation.slices import GOLD, STRENGTH, Slice
from text2sql.questions import Question

if TYPE_CHECKING:
    from text2sql.evaluation.report.details import Evaluated
    from text2sql.evaluation.rule_scores import RuleResults
    from text2sql.rollouts.located import Located

RULES = ("multiset", "ordered", "soft_f1", "r_ves", "ves")
_ROLLOUT = ("verdict", "digest", "row_count", "write_attempts")
_EFFORT = ("turns", "prompt_tokens", "completion_tokens", "seconds", "stop_reason")
_QUESTION = ("db_id", "difficulty", "subset")
COLUMNS = (
    *("policy", "set", "key", "sample"),
    *_QUESTION,
    *_ROLLOUT,
    "place",
    *RULES,
    *(GOLD, STRENGTH, "corrected"),
    *_EFFORT,
    "classes",
)
FLAGGED = "flagged"
"""Stands for the corrected verdict on a question that cannot be judged: it does not count."""


@dataclass(frozen=True)
class Grounds:
    """What scores rest on beside rollouts and questions, as far as there is any.

    ``parts`` are those that questions were scored in; ``corrections`` go by question key, and
    ``rules`` are what the other rules give.
    """

    parts: Sequence[Slice] = ()
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    rules: RuleResults | None = None

    def names(self, kind: str) -> dict[str, str]:
        """Return by question key which part of a kind it belongs to."""
        return {key: one.name for one in self.parts if one.kind == kind for key in one.keys}


def trace(
    file: TextIO,
    policies: Sequence[Evaluated],
    questions: Sequence[Question],
    root: Path,
    grounds: Grounds,
    classes: Mapping[str, Mapping[str, Sequence[str]]],
) -> None:
    """Write a line for every rollout with the file and line where it lies whole below ``root``.

    Every number of the report counts or averages such lines. Greedy rollouts also have what the
    other rules give and, by policy and question key, their ``classes`` of failure.
    """
    asked = {question.key: question for question in questions}
    parts = {kind: grounds.names(kind) for kind in (GOLD, STRENGTH)}
    writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for policy in policies:
        for name, located in policy.sets.items():
            greedy = _greedy(policy.name, grounds, classes) if name == "greedy" else {}
            for one in located:
                key = one.rollout.key
                row = {"policy": policy.name, "set": name} | _line(one, asked[key], root)
                row |= {kind: names.get(key, "") for kind, names in parts.items()}
                row |= dict(_corrected(one, grounds.corrections)) | greedy.get(key, {})
                writer.writerow(row)


def _line(one: Located, question: Question, root: Path) -> dict[str, Any]:
    rollout = one.rollout
    row = {name: getattr(question, name) for name in _QUESTION}
    row |= {name: getattr(rollout, name) for name in ("key", "sample", *_ROLLOUT, *_EFFORT)}
    return row | {"place": one.place.below(root)}


def _corrected(one: Located, corrections: Mapping[str, Correction]) -> Iterator[tuple[str, str]]:
    """Give the verdict by the known issues, where there are any."""
    if corrections:
        judged = next(judge_again([one.rollout], corrections), None)
        yield "corrected", judged.verdict if judged else FLAGGED


def _greedy(
    policy: str, grounds: Grounds, classes: Mapping[str, Mapping[str, Sequence[str]]]
) -> dict[str, dict[str, Any]]:
    """Return by question key what only a policy's greedy rollouts have."""
    given = grounds.rules.values.get(policy, {}) if grounds.rules else {}
    found: dict[str, dict[str, Any]] = {
        key: {rule: value for rule, value in row.items() if rule in RULES}
        for key, row in given.items()
    }
    for key, names in classes.get(policy, {}).items():
        found.setdefault(key, {})["classes"] = "; ".join(names)
    return found
