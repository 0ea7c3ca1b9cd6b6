"""``text2sql questions``: what is asked on schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from text2sql.cli.options.groups import NamingGroup
from text2sql.cli.options.question_fields import given_fields, question_fields, require_running
from text2sql.cli.options.reporting_tables import with_new_store, with_store
from text2sql.common.counting import counted
from text2sql.common.files import SQLITE, write_whole
from text2sql.errors import Text2SqlError

if TYPE_CHECKING:
    from text2sql.reporting.tables.store import ReportingStore

_FOLDER = click.Path(path_type=Path, readable=False, file_okay=False)


@click.group(cls=NamingGroup)
def command() -> None:
    """Say what is asked on schedule, of which database, and what is expected of the answers.

    The questions are in the reporting tables that TEXT2SQL_REPORTING_URL names, or in
    reporting.sqlite below the artifact root. A file of questions (YAML) fills them: it owns what
    nobody edited by hand, and an import never undoes an edit unless it is told to.
    """


@command.command()
@click.argument("id")
@click.option("--question", required=True, help="The question, in plain language.")
@click.option("--database", required=True, help="Its database: a file, or a name (see import).")
@question_fields
@with_new_store
def add(store: ReportingStore, id: str, question: str, database: str, **fields: Any) -> None:
    """Add a question under an ID: letters, digits, '_', '.' and '-'.

    \b
    text2sql questions add big-stores --database shop.sqlite \\
      --question "Which stores have more than 50 employees?" --group weekdays
    """
    from text2sql.reporting.model.question import ReportQuestion
    from text2sql.reporting.tables.questions import QuestionTable

    path = _database(store, database, [])
    given = given_fields(fields, {})
    require_running(given.get("verified_sql"), path)
    QuestionTable(store).add(ReportQuestion(id, question.strip(), path, **given))
    click.echo(f"added {id}; see it with: text2sql questions show {id}")


@command.command()
@click.argument("id")
@click.option("--question", help="The question, in plain language.")
@click.option("--database", help="Its database: a file, or a name (see import).")
@question_fields
@with_store
def edit(store: ReportingStore, id: str, database: str | None, **fields: Any) -> None:
    """Change what is given of the question ID; the rest stays."""
    from text2sql.reporting.tables.questions import QuestionTable

    table = QuestionTable(store)
    changes = given_fields(fields, table.get(id).question.expectations.to_dict())
    if database is not None:
        changes["database"] = _database(store, database, [])
    if not changes:
        raise click.UsageError("say what to change, for example --votes 16")
    asked = table.get(id).question.database
    require_running(changes.get("verified_sql"), changes.get("database", asked))
    table.edit(id, **changes)
    click.echo(f"changed {', '.join(sorted(changes))} of {id}")


@command.command("list")
@click.option("--group", help="Only this schedule group's.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@with_store
def list_(store: ReportingStore, group: str | None, as_json: bool) -> None:
    """List the questions, the disabled ones too."""
    from text2sql.cli.output import stored_questions as show
    from text2sql.reporting.tables.questions import QuestionTable

    found = QuestionTable(store).read(group)
    if as_json:
        for line in show.as_lines(found):
            click.echo(line)
    else:
        click.echo(show.as_list(found))


@command.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_store
def show(store: ReportingStore, id: str, as_json: bool) -> None:
    """Show all of a question, what was edited by hand, its view and its latest answer."""
    from text2sql.cli.output import stored_questions as show
    from text2sql.reporting.tables.questions import QuestionTable

    details = QuestionTable(store).get(id)
    latest = next(iter(store.history(id, 1)), None)
    values = show.as_object(details, latest)
    click.echo(
        json.dumps(values, ensure_ascii=False, indent=1) if as_json else show.as_text(values)
    )


@command.command()
@click.argument("ids", nargs=-1, required=True)
@with_store
def disable(store: ReportingStore, ids: tuple[str, ...]) -> None:
    """Ask the questions IDS no more; they and their answers stay."""
    _enable(store, ids, False)


@command.command()
@click.argument("ids", nargs=-1, required=True)
@with_store
def enable(store: ReportingStore, ids: tuple[str, ...]) -> None:
    """Ask the questions IDS again."""
    _enable(store, ids, True)


def _enable(store: ReportingStore, ids: tuple[str, ...], enabled: bool) -> None:
    from text2sql.reporting.tables.questions import QuestionTable

    QuestionTable(store).enable(ids, enabled)
    click.echo(f"{'enabled' if enabled else 'disabled'} {', '.join(ids)}")


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--databases",
    "folders",
    type=_FOLDER,
    multiple=True,
    help="Where databases that the file names are looked for; beside it without this.",
)
@click.option("--overwrite", is_flag=True, help="Undo what was edited by hand.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_new_store
def import_(
    store: ReportingStore, file: Path, folders: tuple[Path, ...], overwrite: bool, as_json: bool
) -> None:
    """Merge the questions of a YAML FILE into the tables, all or none.

    A field follows the file as long as nobody edited it by hand; an edited one stays, and the
    import says so where the file changed it too. Nothing is deleted: a question that the file
    has no more stays until it is disabled.

    A database is a path, or a name: shop is found as shop, shop.sqlite or shop/shop.sqlite in
    the folders that are searched.
    """
    from dataclasses import asdict, replace

    from text2sql.cli.output import stored_questions as show
    from text2sql.reporting.tables.question_file import read_questions
    from text2sql.reporting.tables.questions import QuestionTable

    searched = list(folders) or [file.resolve().parent]
    questions = [
        replace(one, database=_database(store, one.database, searched))
        for one in read_questions(file)
    ]
    report = QuestionTable(store).import_file(file.resolve(), questions, overwrite=overwrite)
    for note in report.notes():
        click.echo(f"note: {note}", err=True)
    click.echo(json.dumps(asdict(report)) if as_json else show.import_text(report))


@command.command()
@click.option("--group", help="Only this schedule group's.")
@click.option(
    "--to", "file", type=click.Path(path_type=Path, readable=False), help="The file to write."
)
@with_store
def export(store: ReportingStore, group: str | None, file: Path | None) -> None:
    """Write the questions as YAML, as import reads it: to the terminal or to a file."""
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


def _database(store: ReportingStore, name: str, searched: list[Path]) -> str:
    """Return the path of a question's database; refuse what is none, and the reports' own."""
    from text2sql.common.artifacts import artifact_root, report_databases
    from text2sql.reporting.model.question import find_database
    from text2sql.sandbox import check_database

    folders = [*searched, Path.cwd(), report_databases(artifact_root())]
    database = check_database(find_database(name, folders)).resolve()
    store.refuse_database(database)
    with database.open("rb") as file:
        if file.read(len(SQLITE)) != SQLITE:
            raise Text2SqlError(f"{database} is not a SQLite database, or is encrypted")
    return str(database)
