"""``text2sql answers``: answer a day, list and show answers, replay and export them."""

from __future__ import annotations

import json
import os
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from text2sql.cli.options import types
from text2sql.cli.options.dagster import continue_as
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
_CHANGED = 3  # the exit status of a replay with a different result
_DATE = click.DateTime(["%Y-%m-%d"])
_day = partial(click.option, "--day", metavar="YYYY-MM-DD", type=_DATE)
_json = partial(json.dumps, ensure_ascii=False, allow_nan=False)


@click.group(cls=NamingGroup)
def command() -> None:
    """Answer the questions of a day; list, audit, replay and export their answers.

    The answers are in the reporting tables that TEXT2SQL_REPORTING_URL names, or in
    reporting.sqlite below the artifact root.
    """


@command.command("list")
@_day(help="Only this day's answers.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only answers with this status.")
@click.option("--most", type=types.IntegerRange(min=1), default=50, help="List at most this many.")
@types.json_lines_flag
@with_store
def list_(
    store: ReportingStore, day: datetime | None, status: str | None, most: int, as_json: bool
) -> None:
    """List answers, the latest first."""
    from text2sql.cli.output.reporting import answer_list, answer_object
    from text2sql.reporting.model.answer import AnswerStatus

    wanted = AnswerStatus(status) if status else None
    found = store.list_answers(day.date() if day else None, wanted, most)
    if not as_json:
        click.echo(answer_list(found))
    for answer in found if as_json else ():
        click.echo(_json(answer_object(answer)))


@command.command()
@_day(help="The day; default: today.")
@click.option("--group", help="Answer only this schedule group, on any day.")
@click.option("--force", is_flag=True, help="Also ask questions already answered or given up on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@with_url
def run(url: str, day: datetime | None, group: str | None, force: bool, as_json: bool) -> None:
    """Answer the questions of a day now, as the schedule does.

    Runs the job "daily_answers" with the day as its partition; the UI shows the run. The champion
    answers. Questions that are already answered, or whose vote failed after three attempts (errors
    count), are not asked again unless they were edited since.

    \b
    Exit status:
      0  done: each answer's status says whether to trust it
      1  an error you can fix: no champion, no questions, a failed run
      2  wrong usage
    """
    from text2sql.reporting.tables.location import sqlite_file, sqlite_url

    require_questions(url)
    if not champion_record(artifact_root()):
        raise Text2SqlError(
            f"No champion below {artifact_root()}: train one (make demo), or adopt a served model "
            "with text2sql champion adopt."
        )
    file = sqlite_file(url)
    os.environ[URL_VARIABLE] = url if file is None else sqlite_url(file.resolve())
    request = {
        "day": f"{day:%Y-%m-%d}" if day else "",
        "group": group or "",
        "force": force,
        "as_json": as_json,
    }
    continue_as("pipelines.programs.answers", request, "Scheduled answers")


@command.command()
@click.argument("number", metavar="ID", type=int)
@types.json_flag
@with_store
def show(store: ReportingStore, number: int, as_json: bool) -> None:
    """Show an answer with its origin and every vote."""
    from text2sql.cli.output.reporting import audit_object, audit_text
    from text2sql.reporting.delivery.entries import read_entry

    entry = read_entry(store, store.answer_by_id(number))
    click.echo(_json(audit_object(entry), indent=1) if as_json else audit_text(entry))


@command.command()
@click.argument("number", metavar="ID", type=int)
@types.json_flag
@types.timeout_option
@with_store
def replay(store: ReportingStore, number: int, as_json: bool, timeout: float) -> None:
    """Run an answer's queries again and compare the results.

    Its SQL and that of its candidates run in the sandbox, read-only, on the database as it is now.
    If the question now has verified SQL, that runs too, and its result is compared.

    \b
    Exit status:
      0  every result is the same as before
      1  the answer does not exist, or its database is gone
      2  wrong usage
      3  a result differs, a query no longer runs, or the published result
         differs from that of the question's verified SQL
      6  a worker or the reporting database failed
    """
    from text2sql.cli.output.reporting import replay_object, replay_text
    from text2sql.reporting.answering.replay import replay_answer
    from text2sql.sandbox import Sandbox

    answer = store.answer_by_id(number)
    with Sandbox(workers=1) as sandbox:
        found = replay_answer(store, answer, sandbox, timeout)
    click.echo(_json(replay_object(found), indent=1) if as_json else replay_text(found))
    raise SystemExit(0 if found.reproduced and not found.refuted else _CHANGED)


@command.command()
@_day(required=True, help="The day to export.")
@click.option(
    "--format", "format_", type=click.Choice(["csv", "parquet"]), default="csv", help="File format."
)
@click.option("--to", "folder", type=types.FOLDER, required=True, help="The folder to write into.")
@types.json_flag
@with_store
def export(
    store: ReportingStore, day: datetime, format_: Format, folder: Path, as_json: bool
) -> None:
    """Write a day's answers as files.

    There is one file for each published answer, and one that lists all answers.
    """
    from text2sql.reporting.delivery.export import cut_notes, export_answers

    found = store.list_answers(day.date())
    if not found:
        raise Text2SqlError(
            f"No answers for {day:%Y-%m-%d} in {store.name}; text2sql answers list shows all."
        )
    files = [str(file) for file in export_answers(store, found, folder, format_)]
    for note in cut_notes(found):
        click.echo(f"note: {note}", err=True)
    about = {"answers": len(found), "files": files}
    click.echo(_json(about, indent=1) if as_json else "\n".join(files))
