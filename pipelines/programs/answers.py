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

from assets.common.partitions import days
from pipelines.home import open_instance
from pipelines.partitions import today
from pipelines.programs.screen import follow
from pipelines.runs.launch import CommandRuns
from resources.artifact_root import ArtifactRoot
from resources.reporting import ReportingDatabase
from text2sql.cli.output.reporting import answer_list, answer_object
from text2sql.common.artifacts import day_page, logs_folder
from text2sql.errors import Text2SqlError


@dataclass(frozen=True)
class Request:
    """What to answer; an empty ``day`` is today, an empty ``group`` all that is due."""

    day: str = ""
    group: str = ""
    force: bool = False
    as_json: bool = False


def main(arguments: list[str]) -> None:
    """Run the job for the day to its end, and show the day's answers."""
    request, root = Request(**json.loads(arguments[0])), ArtifactRoot().path
    day = request.day or today()
    if not days.has_partition_key(day):
        raise Text2SqlError(
            f"{day} cannot be answered: days go from {days.get_first_partition_key()} to today, "
            f"{today()}."
        )
    config = {
        "ops": {"report_answers": {"config": {"group": request.group, "force": request.force}}}
    }
    log = logs_folder(root) / f"daily_answers-{day}.log"
    with redirect_stdout(sys.stderr if request.as_json else sys.stdout):
        print(f"daily_answers ({day})", flush=True)
        with open_instance() as instance, CommandRuns(instance, log) as runs:
            run = follow(runs, "daily_answers", day, config)
    with ReportingDatabase().open(root) as store:
        found = store.list_answers(date.fromisoformat(day))
    page = str(day_page(root, day))
    if request.as_json:
        answers = [answer_object(answer) for answer in found]
        about = {"day": day, "dagster_run": run.run_id, "page": page, "answers": answers}
        print(json.dumps(about))
    else:
        print(f"\n{answer_list(found)}\n\nWhich to trust, and why: {page}")
