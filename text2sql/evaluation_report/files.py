"""A report's files: the page, what it shows as JSON, and a line for every rollout as CSV."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from text2sql.comparison import HELD_OUT
from text2sql.errors import Text2SqlError
from text2sql.evaluation_report.page import render_report
from text2sql.questions import Question
from text2sql.scores import Score

if TYPE_CHECKING:
    from text2sql.evaluation_report.details import Evaluated
    from text2sql.rule_scores import RuleResults

PAGE, DETAILS, TRACE, TABLE = "report.html", "report.json", "rollouts.csv", "scores.csv"
_RULES = ("multiset", "ordered", "soft_f1", "r_ves", "ves")
_COLUMNS = (
    "policy",
    "set",
    "key",
    "sample",
    "db_id",
    "difficulty",
    "subset",
    "verdict",
    "digest",
    "row_count",
    "write_attempts",
    "place",
    *_RULES,
)
_NO_RULES = dict.fromkeys(_RULES, "")


def write_report(
    folder: Path,
    details: Mapping[str, Any],
    policies: Sequence[Evaluated],
    questions: Sequence[Question],
    root: Path,
    rules: RuleResults | None = None,
) -> Path:
    """Write all four files into ``folder`` and return the page."""
    with _whole(folder / TRACE) as file:
        trace(file, policies, questions, root, rules)
    with _whole(folder / TABLE) as file:
        scores_table(file, details["scores"]["scores"])
    write_text(folder / DETAILS, json.dumps(details, ensure_ascii=False))
    return write_text(folder / PAGE, render_report(details))


def read_details(folder: Path) -> dict[str, Any]:
    """Read what a report shows; raises Text2SqlError where there is none."""
    file = folder / DETAILS
    asset = "held_out_scores" if folder.parent.name == HELD_OUT else "dev_scores"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Text2SqlError(
            f"There is no report of {folder.name}: {file} cannot be read "
            f"({error.strerror}); materialize {asset} for it."
        ) from error
    except ValueError as error:
        raise Text2SqlError(f"{file} is not JSON ({error}); materialize {asset}.") from error
    if not isinstance(found, dict) or "scores" not in found:
        raise Text2SqlError(f"{file} is no report; materialize {asset} again.")
    return found


def scores_table(file: TextIO, scores: Sequence[Mapping[str, Any]]) -> None:
    """Write every score of the report as CSV: shares with their intervals and n."""
    names = [field.name for field in fields(Score)]
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(scores)


def trace(
    file: TextIO,
    policies: Sequence[Evaluated],
    questions: Sequence[Question],
    root: Path,
    rules: RuleResults | None = None,
) -> None:
    """Write a CSV line for every rollout with the file and line where it lies below ``root``.

    Every number of the report counts such lines: its parts are columns. Greedy rollouts also have
    what the other ``rules`` give, where they were looked at.
    """
    given = rules.values if rules else {}
    asked = {question.key: question for question in questions}
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for policy in policies:
        for name, located in policy.sets.items():
            judged = given.get(policy.name, {}) if name == "greedy" else {}
            for one in located:
                rollout, question = one.rollout, asked[one.rollout.key]
                about = (question.db_id, question.difficulty, question.subset)
                result = (rollout.verdict, rollout.digest, rollout.row_count)
                start = (policy.name, name, rollout.key, rollout.sample)
                end = (rollout.write_attempts, one.place.below(root))
                others = (_NO_RULES | judged.get(rollout.key, {})).items()
                values = [value for rule, value in others if rule in _RULES]
                writer.writerow([*start, *about, *result, *end, *values])


def write_text(file: Path, text: str) -> Path:
    """Write a file whole or not at all; raises Text2SqlError where the disk refuses."""
    with _whole(file) as part:
        part.write(text)
    return file


@contextmanager
def _whole(file: Path) -> Iterator[TextIO]:
    """Give a file to write that takes the place of ``file`` once everything is in it."""
    part = file.with_name(f".{os.getpid()}.{file.name}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as opened:
            yield opened
        os.replace(part, file)
    except OSError as error:
        raise Text2SqlError(f"Cannot write {file}: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
