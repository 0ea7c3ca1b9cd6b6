"""``text2sql questions``: manage scheduled questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from text2sql.cli.options import reporting
from text2sql.cli.options.types import FILE, FOLDER, json_flag, json_lines_flag
from text2sql.cli.options.usage import NamingGroup
from text2sql.common.counting import counted
from text2sql.common.files import SQLITE, write_whole
from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.location import refuse_own, sqlite_file

if TYPE_CHECKING:
    from text2sql.reporting.tables.store import ReportingStore

_IDS = click.argument("ids", nargs=-1, required=True)
_GROUP = click.option("--group", help="Only this schedule group's questions.")


@click.group(cls=NamingGroup)
def command() -> None:
    """Manage scheduled questions: their databases, and what to expect of the answers.

    The questions are in the reporting tables that TEXT2SQL_REPORTING_URL names, or in
    reporting.sqlite below the artifact root. They can be imported from a YAML file; an import
    keeps what was edited by hand unless you give --overwrite.
    """


@command.command()
@click.argument("id")
@click.option("--question", required=True, help="The question, in plain language.")
@click.option("--database", required=True, help="Its database: a file, or a name (see import).")
@reporting.question_fields
@reporting.with_url
def add(url: str, id: str, question: str, database: str, **fields: Any) -> None:
    """Add a question. Its ID may have letters, digits, '_', '.' and '-'.

    \b
    text2sql questions add big-stores --database shop.sqlite \\
      --question "Which stores have more than 50 employees?" --group weekdays
    """
    from text2sql.reporting.model.question import ReportQuestion
    from text2sql.reporting.tables.questions import QuestionTable
    from text2sql.reporting.tables.store import ReportingStore

    path = _database(database, partial(refuse_own, sqlite_file(url)))
    given = reporting.given_fields(fields, {})
    reporting.require_running(given.get("verified_sql"), path)
    new = ReportQuestion(id, question.strip(), path, **given)
    with ReportingStore(url) as store:  # after all checks: a failed command makes no tables
        QuestionTable(store).add(new)
    click.echo(f"added {id}; see it with: text2sql questions show {id}")


@command.command()
@click.argument("id")
@click.option("--question", help="The question, in plain language.")
@click.option("--database", help="Its database: a file, or a name (see import).")
@reporting.question_fields
@reporting.with_store
def edit(store: ReportingStore, id: str, database: str | None, **fields: Any) -> None:
    """Change the given fields of the question ID, and only these."""
    from text2sql.reporting.tables.questions import QuestionTable

    table = QuestionTable(store)
    changes = reporting.given_fields(fields, table.get(id).question.expectations.to_dict())
    if database is not None:
        changes["database"] = _database(database, store.refuse_database)
    if not changes:
        raise click.UsageError("Say what to change, for example --votes 16.")
    asked = table.get(id).question.database
    reporting.require_running(changes.get("verified_sql"), changes.get("database", asked))
    table.edit(id, **changes)
    click.echo(f"changed {', '.join(sorted(changes))} of {id}")


@command.command("list")
@_GROUP
@json_lines_flag
@reporting.with_store
def list_(store: ReportingStore, group: str | None, as_json: bool) -> None:
    """List the questions, including the disabled ones."""
    from text2sql.cli.output.reporting import question_lines, question_list
    from text2sql.reporting.tables.questions import QuestionTable

    found = QuestionTable(store).read(group)
    for line in question_lines(found) if as_json else [question_list(found)]:
        click.echo(line)


@command.command()
@click.argument("id")
@json_flag
@reporting.with_store
def show(store: ReportingStore, id: str, as_json: bool) -> None:
    """Show a question, its view and its latest answer."""
    from text2sql.cli.output.reporting import question_object, question_text
    from text2sql.reporting.tables.questions import QuestionTable

    latest = next(iter(store.history(id, 1)), None)
    values = question_object(QuestionTable(store).get(id), latest)
    text = json.dumps(values, ensure_ascii=False, indent=1) if as_json else question_text(values)
    click.echo(text)


@command.command()
@_IDS
@reporting.with_store
def disable(store: ReportingStore, ids: tuple[str, ...]) -> None:
    """Stop asking the questions IDS; they and their answers stay."""
    _enable(store, ids, False)


@command.command()
@_IDS
@reporting.with_store
def enable(store: ReportingStore, ids: tuple[str, ...]) -> None:
    """Ask the questions IDS again."""
    _enable(store, ids, True)


@command.command()
@_IDS
@reporting.with_store
def delete(store: ReportingStore, ids: tuple[str, ...]) -> None:
    """Delete the questions IDS, which must have no answers yet.

    A question with answers can be disabled. If a file has a deleted question, its next import adds
    it again.
    """
    from text2sql.reporting.tables.questions import QuestionTable

    QuestionTable(store).delete(ids)
    click.echo(f"deleted {', '.join(ids)}")


def _enable(store: ReportingStore, ids: tuple[str, ...], enabled: bool) -> None:
    from text2sql.reporting.tables.questions import QuestionTable

    QuestionTable(store).enable(ids, enabled)
    click.echo(f"{'enabled' if enabled else 'disabled'} {', '.join(ids)}")


@command.command("import")
@click.argument("file", type=FILE)
@click.option(
    "--databases",
    "folders",
    type=FOLDER,
    multiple=True,
    help="Where to look for the databases that the file names; default: beside it. Repeatable.",
)
@click.option("--overwrite", is_flag=True, help="Also replace what was edited by hand.")
@json_flag
@reporting.with_url
def import_(
    url: str, file: Path, folders: tuple[Path, ...], overwrite: bool, as_json: bool
) -> None:
    """Merge the questions of a YAML FILE into the tables, all or none.

    Fields that were edited by hand keep their value; if the file changed one too, a note says so.
    Nothing is deleted: a question that is no longer in the file stays until you disable it.

    A database is a path or a name: shop is looked up as shop, shop.sqlite or shop/shop.sqlite in
    the --databases folders, the current folder, and the demo's databases.
    """
    from dataclasses import asdict, replace

    from text2sql.reporting.tables.question_file import read_questions
    from text2sql.reporting.tables.questions import QuestionTable
    from text2sql.reporting.tables.store import ReportingStore

    refuse = partial(refuse_own, sqlite_file(url))
    searched = list(folders) or [file.resolve().parent]
    questions = [
        replace(one, database=_database(one.database, refuse, *searched))
        for one in read_questions(file)
    ]
    with ReportingStore(url) as store:  # after all checks, as in add
        report = QuestionTable(store).import_file(file.resolve(), questions, overwrite=overwrite)
    for note in report.notes():
        click.echo(f"note: {note}", err=True)
    counts = f"{len(report.added)} added, {len(report.updated)} updated"
    text = f"{counts}, {report.unchanged} unchanged"
    click.echo(json.dumps(asdict(report)) if as_json else text)


@command.command()
@_GROUP
@click.option("--to", "file", type=FILE, help="The file to write; default: the terminal.")
@reporting.with_store
def export(store: ReportingStore, group: str | None, file: Path | None) -> None:
    """Write the questions as YAML that import reads."""
    from text2sql.reporting.tables.question_file import write_questions
    from text2sql.reporting.tables.questions import QuestionTable

    found = QuestionTable(store).read(group)
    if found.unreadable:
        raise Text2SqlError("; ".join(found.unreadable.values()))
    text = write_questions(found.readable)
    if file is None:
        click.echo(text, nl=False)
        return
    write_whole(file, text)
    click.echo(f"wrote {counted(len(found.readable), 'question')} to {file}")


def _database(name: str, refuse: Callable[[Path], None], *searched: Path) -> str:
    """Return the path of a question's database; refuse other files and the reports' own."""
    from text2sql.common.artifacts import artifact_root, report_databases
    from text2sql.reporting.model.question import find_database
    from text2sql.sandbox import check_database

    folders = [*searched, Path.cwd(), report_databases(artifact_root())]
    database = check_database(find_database(name, folders)).resolve()
    refuse(database)
    with database.open("rb") as file:
        if file.read(len(SQLITE)) != SQLITE:
            raise Text2SqlError(f"{database} is not a SQLite database, or is encrypted.")
    return str(database)
