"""A report's files: the page, what it shows as JSON, and a line for every rollout as CSV."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text2sql.errors import Text2SqlError
from text2sql.evaluation_report.page import render_report
from text2sql.questions import Question

if TYPE_CHECKING:
    from text2sql.evaluation_report.details import Evaluated

PAGE, DETAILS, TRACE = "report.html", "report.json", "rollouts.csv"
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
)


def write_report(
    folder: Path,
    details: Mapping[str, Any],
    policies: Sequence[Evaluated],
    questions: Sequence[Question],
    root: Path,
) -> Path:
    """Write all three files into ``folder`` and return the page."""
    write_text(folder / TRACE, trace(policies, questions, root))
    write_text(folder / DETAILS, json.dumps(details, ensure_ascii=False))
    return write_text(folder / PAGE, render_report(details))


def read_details(folder: Path) -> dict[str, Any]:
    """Read what a report shows; raises Text2SqlError where there is none."""
    file = folder / DETAILS
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Text2SqlError(
            f"There is no report of the training run {folder.name}: {file} cannot be read "
            f"({error.strerror}); materialize dev_scores for it."
        ) from error
    except ValueError as error:
        raise Text2SqlError(f"{file} is not JSON ({error}); materialize dev_scores.") from error
    if not isinstance(found, dict) or "scores" not in found:
        raise Text2SqlError(f"{file} is no report; materialize dev_scores again.")
    return found


def trace(policies: Sequence[Evaluated], questions: Sequence[Question], root: Path) -> str:
    """Return a CSV line for every rollout with the file and line where it lies below ``root``.

    Every number of the report counts such lines: its parts are columns.
    """
    asked = {question.key: question for question in questions}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for policy in policies:
        for name, located in (("greedy", policy.greedy), ("sampled", policy.sampled)):
            for one in located:
                rollout, question = one.rollout, asked[one.rollout.key]
                about = (question.db_id, question.difficulty, question.subset)
                result = (rollout.verdict, rollout.digest, rollout.row_count)
                start = (policy.name, name, rollout.key, rollout.sample)
                end = (rollout.write_attempts, one.place.below(root))
                writer.writerow([*start, *about, *result, *end])
    return text.getvalue()


def write_text(file: Path, text: str) -> Path:
    """Write a file whole or not at all; raises Text2SqlError where the disk refuses."""
    part = file.with_name(f".{os.getpid()}.{file.name}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, file)
    except OSError as error:
        raise Text2SqlError(f"Cannot write {file}: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
    return file
