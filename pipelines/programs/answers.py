"""``text2sql answers run``: the questions of a day, answered as a real Dagster run.

``python -m pipelines.programs.answers REQUEST`` with a ``Request`` as JSON. The run is the job
``daily_answers`` with the day as its partition, as the schedule starts it.
"""

from __future__ import annotations

import sys

from pipelines.programs.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.programs.answers"))

import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from assets.common.partitions import days
from pipelines.home import open_instance
from pipelines.partitions import today
from pipelines.programs.screen import Screen
from pipelines.runs.launch import CommandRuns
from resources.paths import ArtifactRoot
from resources.reporting import ReportingDatabase
from text2sql.cli.output.reporting import answer_list, answer_object
from text2sql.common.artifacts import day_page, logs_folder
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.answer import StoredAnswer

JOB = "daily_answers"


@dataclass(frozen=True)
class Request:
    """What to answer; an empty ``day`` is today, an empty ``group`` all that is due."""

    day: str = ""
    group: str = ""
    force: bool = False
    as_json: bool = False


def main(arguments: list[str]) -> None:
    """Run the job for the day to its end, and show the day's answers."""
    request, root = _request(arguments), ArtifactRoot()
    day = request.day or today()
    if not days.has_partition_key(day):
        raise Text2SqlError(
            f"{day} cannot be answered: days go from {days.get_first_partition_key()} to today, "
            f"{today()}."
        )
    with redirect_stdout(sys.stderr if request.as_json else sys.stdout):
        print(f"{JOB} ({day})", flush=True)
        run = _run(root, day, request)
    with ReportingDatabase().open(root.path) as store:
        found = store.list_answers(date.fromisoformat(day))
    page = day_page(root.path, day)
    print(json.dumps(_object(day, run, page, found)) if request.as_json else _text(found, page))


def _request(arguments: list[str]) -> Request:
    try:
        return Request(**json.loads(arguments[0]))
    except (IndexError, ValueError, TypeError) as error:
        raise Text2SqlError("Answer a day with: text2sql answers run.") from error


def _run(root: ArtifactRoot, day: str, request: Request) -> str:
    """Execute the job; return the id of the Dagster run."""
    asked = {"group": request.group, "force": request.force}
    config = {"ops": {"report_answers": {"config": asked}}}
    log, screen = logs_folder(root.path) / f"{JOB}-{day}.log", Screen()
    with open_instance() as instance, CommandRuns(instance, log) as runs:
        run = runs.run(JOB, day, config, on_stage=screen.finished, on_tick=screen.tick)
    return run.run_id


def _object(day: str, run: str, page: Path, found: list[StoredAnswer]) -> dict[str, Any]:
    answers = [answer_object(answer) for answer in found]
    return {"day": day, "dagster_run": run, "page": str(page), "answers": answers}


def _text(found: list[StoredAnswer], page: Path) -> str:
    return f"\n{answer_list(found)}\n\nWhich to trust, and why: {page}"
