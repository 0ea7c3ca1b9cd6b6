"""A report's files: the page, what it shows as JSON, and a line for every rollout as CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from text2sql.common.artifacts import held_out_folder
from text2sql.common.files import whole_file, write_whole
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.evaluation.report.page import render_report
from text2sql.evaluation.report.trace import Grounds, trace
from text2sql.evaluation.scores import Score
from text2sql.questions import Question

if TYPE_CHECKING:
    from text2sql.evaluation.report.details import Evaluated

PAGE, DETAILS, TRACE, TABLE = "report.html", "report.json", "rollouts.csv", "scores.csv"


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
    """Read what a report shows; raises Text2SqlError where there is none."""
    file = folder / DETAILS
    asset = (
        "held_out_scores" if folder.parent.name == held_out_folder(Path()).name else "dev_scores"
    )
    mend = f"Materialize {asset} for {folder.name} again."
    if not file.exists():
        raise Text2SqlError(f"There is no report of {folder.name}: materialize {asset} for it.")
    return read_object(file, mend)


def render_again(folder: Path) -> str:
    """Return the page of a report that was written; raises Text2SqlError where there is none."""
    details = read_details(folder)
    try:
        return render_report(details)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Text2SqlError(
            f"{folder / DETAILS} is no report of this version ({error!r}): make it again."
        ) from error


def scores_table(file: TextIO, scores: Sequence[Mapping[str, Any]]) -> None:
    """Write every score of the report as CSV: shares with their intervals and n."""
    names = [field.name for field in fields(Score)]
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(scores)


@contextmanager
def _whole(file: Path) -> Iterator[TextIO]:
    """Give a file to write that takes the place of ``file`` once everything is in it.

    Half a character, which a model may write, becomes its escape: that is JSON's own form of it.
    """
    half = "backslashreplace"
    with whole_file(file) as part, part.open("w", encoding="utf-8", errors=half) as opened:
        yield opened
