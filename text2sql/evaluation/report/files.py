"""A report's files: the page, what it shows as JSON, its scores and every rollout as CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

PAGE, DETAILS, TRACE, TABLE = "report.html", "report.json", "rollouts.csv", "scores.csv"
RULES = ("multiset", "ordered", "soft_f1", "r_ves", "ves")
_ROLLOUT = ("verdict", "digest", "row_count", "write_attempts")
_EFFORT = ("turns", "prompt_tokens", "completion_tokens", "seconds", "stop_reason")
_QUESTION = ("db_id", "difficulty", "subset")
_PARTS = (GOLD, STRENGTH)
_COLUMNS = (
    *("policy", "set", "key", "sample", *_QUESTION, *_ROLLOUT, "place"),
    *(*RULES, *_PARTS, "corrected", *_EFFORT, "classes"),
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


def write_report(
    folder: Path,
    details: Mapping[str, Any],
    policies: Sequence[Evaluated],
    questions: Sequence[Question],
    root: Path,
    grounds: Grounds | None = None,
) -> Path:
    """Write all four files into ``folder`` and return the page."""
    with _csv_writer(folder / TRACE, _COLUMNS) as writer:
        by_key = {question.key: question for question in questions}
        for row in _trace(policies, by_key, root, grounds or Grounds(), details["questions"]):
            writer.writerow(row)
    with _csv_writer(folder / TABLE, [field.name for field in fields(Score)]) as writer:
        for score in details["scores"]["scores"]:  # a mean over rows without n would be wrong
            known = score["n"] > 0
            writer.writerow(score if known else score | dict.fromkeys(("value", "low", "high"), ""))
    write_whole(folder / DETAILS, json.dumps(details, ensure_ascii=False))
    return write_whole(folder / PAGE, render_report(details))


def read_details(folder: Path) -> dict[str, Any]:
    """Read the data of a report; raises Text2SqlError if there is none."""
    file = folder / DETAILS
    asset = "dev_scores"
    if folder.parent.name == held_out_folder(Path()).name:
        asset = "held_out_scores"
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


@contextmanager
def _csv_writer(file: Path, columns: Sequence[str]) -> Iterator[csv.DictWriter[str]]:
    """Write a header and the rows of the block; the file is replaced once it is complete.

    Half a character, which a model may write, becomes its escape, as in JSON.
    """
    half = "backslashreplace"
    with whole_file(file) as part, part.open("w", encoding="utf-8", errors=half) as opened:
        writer = csv.DictWriter(opened, columns, restval="", lineterminator="\n")
        writer.writeheader()
        yield writer


def _trace(
    policies: Sequence[Evaluated],
    questions: Mapping[str, Question],
    root: Path,
    grounds: Grounds,
    answers: Sequence[Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield a row for every rollout, with the file and line below ``root`` that have all of it.

    Every number of the report counts or averages such rows. Greedy rollouts also have what the
    other rules give, and the classes of failure of the report's ``answers``.
    """
    parts = {
        kind: {key: one.name for one in grounds.parts if one.kind == kind for key in one.keys}
        for kind in _PARTS
    }
    for policy in policies:
        values = grounds.rules.values.get(policy.name, {}) if grounds.rules else {}
        classes = {row["key"]: "; ".join(row[policy.name]["classes"]) for row in answers}
        for name, located in policy.sets.items():
            for one in located:
                rollout, key = one.rollout, one.rollout.key
                row: dict[str, Any] = {"policy": policy.name, "set": name}
                row["place"] = one.place.below(root)
                row |= {column: getattr(questions[key], column) for column in _QUESTION}
                row |= {c: getattr(rollout, c) for c in ("key", "sample", *_ROLLOUT, *_EFFORT)}
                row |= {kind: names.get(key, "") for kind, names in parts.items()}
                if grounds.corrections:
                    judged = next(judge_again([rollout], grounds.corrections), None)
                    row["corrected"] = judged.verdict if judged else FLAGGED
                if name == "greedy":
                    by_rule = values.get(key, {})
                    row |= {rule: by_rule[rule] for rule in RULES if rule in by_rule}
                    row["classes"] = classes.get(key, "")
                yield row
