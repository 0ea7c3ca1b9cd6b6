"""A report's files: the page, what it shows as JSON, its scores and every rollout as CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jinja2 import UndefinedError

from text2sql.common.artifacts import held_out_folder
from text2sql.common.files import whole_file, write_whole
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.evaluation.known_issues import Correction, judge_again
from text2sql.evaluation.report.page import render_report
from text2sql.evaluation.scores import Score
from text2sql.evaluation.slices import GOLD, STRENGTH, Slice
from text2sql.questions import Question

if TYPE_CHECKING:
    from text2sql.evaluation.report.details import Evaluated
    from text2sql.evaluation.rule_scores import RuleResults
    from text2sql.rollouts.located import Located

PAGE, DETAILS, TRACE, TABLE = "report.html", "report.json", "rollouts.csv", "scores.csv"
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
"""The corrected verdict of a question that cannot be judged; it does not count."""


@dataclass(frozen=True)
class Grounds:
    """What scores rest on besides rollouts and questions.

    ``parts`` are those that questions were scored in; ``corrections`` go by question key, and
    ``rules`` are what the other rules give.
    """

    parts: Sequence[Slice] = ()
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    rules: RuleResults | None = None

    def names(self, kind: str) -> dict[str, str]:
        """Return by question key which part of a kind it belongs to."""
        return {key: one.name for one in self.parts if one.kind == kind for key in one.keys}


def write_report(
    folder: Path,
    details: Mapping[str, Any],
    policies: Sequence[Evaluated],
    questions: Sequence[Question],
    root: Path,
    grounds: Grounds | None = None,
) -> Path:
    """Write all four files into ``folder`` and return the page."""
    classes = {
        policy.name: {row["key"]: row[policy.name]["classes"] for row in details["questions"]}
        for policy in policies
    }
    with _whole(folder / TRACE) as file:
        trace(file, policies, questions, root, grounds or Grounds(), classes)
    with _whole(folder / TABLE) as file:
        scores_table(file, details["scores"]["scores"])
    write_whole(folder / DETAILS, json.dumps(details, ensure_ascii=False))
    return write_whole(folder / PAGE, render_report(details))


def read_details(folder: Path) -> dict[str, Any]:
    """Read the data of a report; raises Text2SqlError if there is none."""
    file = folder / DETAILS
    held_out = folder.parent.name == held_out_folder(Path()).name
    asset = "held_out_scores" if held_out else "dev_scores"
    if not file.exists():
        raise Text2SqlError(f"No report of {folder.name} yet: materialize {asset} for it.")
    return read_object(file, f"Materialize {asset} for {folder.name} again.")


def render_again(folder: Path) -> str:
    """Render the page of a stored report again; raises Text2SqlError if there is none."""
    details = read_details(folder)
    try:
        return render_report(details)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, UndefinedError) as error:
        raise Text2SqlError(
            f"{folder / DETAILS} was written by another version ({error!r}): make it again."
        ) from error


def scores_table(file: TextIO, scores: Sequence[Mapping[str, Any]]) -> None:
    """Write every score of the report as CSV: shares with their intervals and n."""
    names = [field.name for field in fields(Score)]
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(scores)


@contextmanager
def _whole(file: Path) -> Iterator[TextIO]:
    """Open a file for writing that replaces ``file`` once it is complete.

    Half a character, which a model may write, becomes its escape, as in JSON.
    """
    half = "backslashreplace"
    with whole_file(file) as part, part.open("w", encoding="utf-8", errors=half) as opened:
        yield opened


def trace(
    file: TextIO,
    policies: Sequence[Evaluated],
    questions: Sequence[Question],
    root: Path,
    grounds: Grounds,
    classes: Mapping[str, Mapping[str, Sequence[str]]],
) -> None:
    """Write a line for every rollout, with the file and line below ``root`` that hold all of it.

    Every number of the report counts or averages such lines. Greedy rollouts also have what the
    other rules give and, by policy and question key, their ``classes`` of failure.
    """
    by_key = {question.key: question for question in questions}
    parts = {kind: grounds.names(kind) for kind in (GOLD, STRENGTH)}
    writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for policy in policies:
        for name, located in policy.sets.items():
            greedy = _greedy(policy.name, grounds, classes) if name == "greedy" else {}
            for one in located:
                key = one.rollout.key
                row = {"policy": policy.name, "set": name} | _line(one, by_key[key], root)
                row |= {kind: names.get(key, "") for kind, names in parts.items()}
                row |= dict(_corrected(one, grounds.corrections)) | greedy.get(key, {})
                writer.writerow(row)


def _line(one: Located, question: Question, root: Path) -> dict[str, Any]:
    rollout = one.rollout
    row = {name: getattr(question, name) for name in _QUESTION}
    row |= {name: getattr(rollout, name) for name in ("key", "sample", *_ROLLOUT, *_EFFORT)}
    return row | {"place": one.place.below(root)}


def _corrected(one: Located, corrections: Mapping[str, Correction]) -> Iterator[tuple[str, str]]:
    """Yield the verdict by the known issues, if there are any."""
    if corrections:
        judged = next(judge_again([one.rollout], corrections), None)
        yield "corrected", judged.verdict if judged else FLAGGED


def _greedy(
    policy: str, grounds: Grounds, classes: Mapping[str, Mapping[str, Sequence[str]]]
) -> dict[str, dict[str, Any]]:
    """Return by question key the columns that only greedy rollouts have."""
    given = grounds.rules.values.get(policy, {}) if grounds.rules else {}
    found: dict[str, dict[str, Any]] = {
        key: {rule: value for rule, value in row.items() if rule in RULES}
        for key, row in given.items()
    }
    for key, names in classes.get(policy, {}).items():
        found.setdefault(key, {})["classes"] = "; ".join(names)
    return found
