"""``text2sql answers``: answer a day, list and show answers, replay and export them."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from text2sql.cli.options.dagster_program import go_on_as
from text2sql.cli.options.numbers import IntegerRange, NumberRange
from text2sql.cli.options.reporting import require_questions, with_store, with_url
from text2sql.cli.options.usage import NamingGroup
from text2sql.common.artifacts import artifact_root
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.reporting.tables.location import URL_VARIABLE

if TYPE_CHECKING:
    from text2sql.reporting.delivery.export import Format
    from text2sql.reporting.tables.store import ReportingStore

_STATUSES = ("answered", "no_consensus", "low_agreement", "refuted", "error")
_DAY = click.DateTime(["%Y-%m-%d"])
_CHANGED = 3
"""The exit status of a replay with a different result."""


@click.group(cls=NamingGroup)
def command() -> None:
    """Answer a day; show answers and why to trust them; replay and export them.

    The answers are in the reporting tables that TEXT2SQL_REPORTING_URL names, or in
    reporting.sqlite below the artifact root.
    """


@command.command("list")
@click.option("--day", metavar="YYYY-MM-DD", type=_DAY, help="Only this day's answers.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only answers with this status.")
@click.option(
    "--most",
    type=IntegerRange(min=1),
    default=50,
    show_default=True,
    help="Answers to list.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@with_store
def list_(
    store: ReportingStore, day: datetime | None, status: str | None, most: int, as_json: bool
) -> None:
    """List answers, the latest first."""
    from text2sql.cli.output.reporting import answer_list, answer_object
    from text2sql.reporting.model.answer import AnswerStatus

    found = store.list_answers(
        day.date() if day else None, AnswerStatus(status) if status else None, most
    )
    if as_json:
        for answer in found:
            click.echo(json.dumps(answer_object(answer), ensure_ascii=False, allow_nan=False))
    else:
        click.echo(answer_list(found))


@command.command()
@click.option("--day", metavar="YYYY-MM-DD", type=_DAY, help="The day; default: today.")
@click.option("--group", default="", help="Answer only this schedule group, on any day.")
@click.option("--force", is_flag=True, help="Ask again what is already answered.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@with_url
def run(url: str, day: datetime | None, group: str, force: bool, as_json: bool) -> None:
    """Answer the questions of a day now, as the schedule does.

    It runs the job "daily_answers" with the day as its partition, and the UI shows the run. The
    champion answers. What is already answered is not asked again, unless the question was edited
    since.

    \b
    Exit status:
      0  done: each answer's status says whether to trust it
      1  an error you can fix: no champion, no questions, a failed run
      2  wrong usage
    """
    from text2sql.reporting.tables.location import sqlite_file, sqlite_url

    if not champion_record(artifact_root()):
        raise Text2SqlError(
            f"No champion below {artifact_root()}: train one (make demo), or adopt a served model "
            "with text2sql champion adopt."
        )
    require_questions(url)
    file = sqlite_file(url)
    os.environ[URL_VARIABLE] = url if file is None else sqlite_url(file.resolve())
    request = {
        "day": f"{day:%Y-%m-%d}" if day else "",
        "group": group,
        "force": force,
        "as_json": as_json,
    }
    go_on_as("pipelines.programs.answers", request, "Scheduled answers")


@command.command()
@click.argument("number", metavar="ID", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_store
def show(store: ReportingStore, number: int, as_json: bool) -> None:
    """Show an answer with its origin and every vote."""
    from text2sql.cli.output.reporting import audit_object, audit_text
    from text2sql.reporting.delivery.entries import read_entry

    entry = read_entry(store, store.answer_by_id(number))
    click.echo(_json(audit_object(entry)) if as_json else audit_text(entry))


@command.command()
@click.argument("number", metavar="ID", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--timeout",
    type=NumberRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds that one query may take.",
)
@with_store
def replay(store: ReportingStore, number: int, as_json: bool, timeout: float) -> None:
    """Run the SQL of an answer again, and that of its candidates, and compare.

    It runs in the sandbox, read-only, on the database as it is now. If the question has verified
    SQL now, that runs too and is compared.

    \b
    Exit status:
      0  every result is the same as before
      1  the answer does not exist, or its database is gone
      2  wrong usage
      3  a result differs, a query no longer runs, or what was published
         differs from the result of the question's verified SQL
      6  a worker or the reporting database failed
    """
    from text2sql.cli.output.reporting import replay_object, replay_text
    from text2sql.reporting.answering.replay import replay_answer
    from text2sql.sandbox import Sandbox

    answer = store.answer_by_id(number)
    with Sandbox(workers=1) as sandbox:
        found = replay_answer(store, answer, sandbox, timeout)
    click.echo(_json(replay_object(found)) if as_json else replay_text(found))
    raise SystemExit(0 if found.reproduced and not found.refuted else _CHANGED)


@command.command()
@click.option("--day", metavar="YYYY-MM-DD", type=_DAY, required=True, help="The day to export.")
@click.option(
    "--format", "format_", type=click.Choice(["csv", "parquet"]), default="csv",
    show_default=True, help="The kind of file.",
)  # fmt: skip
@click.option(
    "--to", "folder", type=click.Path(path_type=Path, readable=False, file_okay=False),
    required=True, help="The folder to write into.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_store
def export(
    store: ReportingStore, day: datetime, format_: Format, folder: Path, as_json: bool
) -> None:
    """Write a day's answers as files: one for each, and one that lists them all."""
    from text2sql.reporting.delivery.export import cut_notes, export_answers

    found = store.list_answers(day.date())
    if not found:
        raise Text2SqlError(f"nothing was asked on {day:%Y-%m-%d} in {store.name}")
    files = [str(file) for file in export_answers(store, found, folder, format_)]
    for note in cut_notes(found):
        click.echo(f"note: {note}", err=True)
    click.echo(_json({"answers": len(found), "files": files}) if as_json else "\n".join(files))


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1)
