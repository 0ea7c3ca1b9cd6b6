"""``text2sql gold``: look at the gold queries of a questions file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from text2sql.cli.options.asked import usable
from text2sql.cli.options.types import FILE, IntegerRange, json_lines_flag, timeout_option
from text2sql.cli.options.usage import NamingGroup
from text2sql.cli.output.evaluate_output import report_unusable
from text2sql.common.counting import counted
from text2sql.common.render import aligned, neutral
from text2sql.datasets.reading.files import gold_beside
from text2sql.datasets.reading.questions import read_records
from text2sql.errors import InfrastructureError
from text2sql.sandbox import Limits, Sandbox


@click.group(cls=NamingGroup)
def command() -> None:
    """Look at the gold queries of a questions file."""


@command.command("flags")
@click.option("--questions", required=True, type=FILE, help="BIRD's dev.json, or a file like it.")
@click.option("--databases", required=True, type=FILE, help="Folder with the SQLite files.")
@timeout_option
@click.option("--jobs", type=IntegerRange(min=1), help="Worker processes; default: one per core.")
@json_lines_flag
def flags(
    questions: Path, databases: Path, timeout: float, jobs: int | None, as_json: bool
) -> None:
    """List gold queries that fail, return no row, or leave their answer open.

    A gold query leaves its answer open if, for example, its LIMIT cuts through rows that sort
    alike: a right prediction may then be scored as wrong. docs/checks.md explains each flag. Gold
    that fails is flagged gold_fails, gold without rows gold_empty: any query that returns no row
    matches it.

    \b
    Exit status:
      0  the queries were checked, flagged or not
      1  an error you can fix: a file, a database
      2  wrong usage
      6  a worker or a database failed for some queries
    """
    from text2sql.datasets.gold.find import flag_golds  # sqlglot takes a while to import
    from text2sql.datasets.gold.run import explain_failure, run_golds

    records = read_records(questions, databases, "dev", gold_beside(questions))
    needed = "a gold SQL and its database"
    asked = usable(records, questions, databases, "looked at", needed)
    limits = Limits(seconds=timeout)
    with Sandbox(jobs) as sandbox:
        golds = run_golds(asked, sandbox, limits)
        found = [asdict(one) for one in flag_golds(asked, golds, sandbox, limits)]
    for question in asked:
        gold = golds[question.key]
        if gold.failing:
            detail = explain_failure(gold, question.sql) or gold.status.value
            found.append({"key": question.key, "flag": "gold_fails", "detail": detail})
        elif gold.empty:
            detail = "the query returns no row"
            found.append({"key": question.key, "flag": "gold_empty", "detail": detail})
    place = {question.key: at for at, question in enumerate(asked)}
    found.sort(key=lambda one: place[one["key"]])
    report_unusable(records)
    if as_json:
        for one in found:
            click.echo(json.dumps(one))
    else:
        rows = [(one["key"], str(one["flag"]), one["detail"]) for one in found]
        for line in aligned([tuple(map(neutral, row)) for row in rows]):
            click.echo(line)
        keys = {one["key"] for one in found}
        click.echo(f"{len(keys)} of {counted(len(asked), 'gold query', 'gold queries')} flagged")
    lost = [gold.error for gold in golds.values() if gold.lost]
    if lost:
        raise InfrastructureError(
            f"{counted(len(lost), 'gold query', 'gold queries')} could not be run; the first: "
            f"{lost[0]}. Run it again."
        )
