"""Options of the commands on scheduled questions: the reporting tables, a question's fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.bounds import MINIMUM_SHARE, VOTES


def with_url(work: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the URL of the reporting database, with an option to name it."""

    @click.option("--reporting", metavar="URL", help="Reporting database; default: the project's.")
    @wraps(work)
    def run(*arguments: Any, reporting: str | None, **options: Any) -> Any:
        try:
            import text2sql.reporting.tables.store  # noqa: F401 - its packages may be missing
        except ModuleNotFoundError as error:
            raise Text2SqlError(
                f"The reporting tables need text2sql-lifecycle[reporting] ({error}): install it."
            ) from error
        from text2sql.reporting.tables.location import reporting_url

        return work(reporting or reporting_url(), *arguments, **options)

    return run


def with_store(work: Callable[..., Any]) -> Callable[..., Any]:
    """Open the reporting tables for a command that needs something in them."""

    @wraps(work)
    def run(url: str, *arguments: Any, **options: Any) -> Any:
        from text2sql.reporting.tables.store import ReportingStore

        require_file(url)
        with ReportingStore(url) as store:
            return work(store, *arguments, **options)

    return with_url(run)


def require_file(url: str) -> None:
    """Raise Text2SqlError for a missing file, so that reading creates no empty database."""
    from text2sql.reporting.tables.location import sqlite_file

    path = sqlite_file(url)
    if path is not None and not path.is_file():
        raise Text2SqlError(
            "There are no scheduled questions yet: add one with text2sql questions add (no "
            f"reporting tables at {path}; others are named with --reporting)."
        )


def require_questions(url: str) -> None:
    """Raise Text2SqlError for empty tables, into which the asset would put the demo's questions."""
    from text2sql.reporting.tables.questions import QuestionTable
    from text2sql.reporting.tables.store import ReportingStore

    require_file(url)
    with ReportingStore(url) as store:
        if not QuestionTable(store).files():
            raise Text2SqlError(
                f"There are no scheduled questions yet in {store.name}: add one with text2sql "
                "questions add, or a file of them with text2sql questions import."
            )


def question_fields(work: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each field of a question; None if it is not given."""
    options = [
        click.option("--evidence", help="Knowledge that the question leaves out."),
        click.option("--votes", type=int, help=VOTES.option()),
        click.option("--minimum-share", type=float, help=MINIMUM_SHARE.option()),
        click.option("--timezone", help="Time zone of its day, such as Europe/Berlin (UTC)."),
        click.option(
            "--group",
            help="Schedule group: daily, weekdays, weekly (Mondays), monthly (the first), or a"
            " name of your own, which runs daily (daily).",
        ),
        click.option("--owner", help="Who is responsible for it."),
        click.option("--verified-sql", help="Correct SQL to compare answers with; '' removes it."),
        click.option("--columns", help="Expect exactly these columns: a,b,c; '' removes this."),
        click.option("--least-rows", type=int, help="Expect at least this many rows."),
        click.option("--most-rows", type=int, help="Expect at most this many rows."),
        click.option(
            "--not-empty/--may-be-empty", default=None, help="Expect a value that is not NULL."
        ),
    ]
    for option in reversed(options):
        work = option(work)
    return work


def require_running(sql: str | None, database: str) -> None:
    """Raise Text2SqlError for verified SQL that does not run as a read-only query."""
    from text2sql.judge.verdicts import execute_submission
    from text2sql.sandbox import Limits, Sandbox, Status, clean_sql

    if sql:
        with Sandbox(workers=1) as sandbox:
            result = execute_submission(clean_sql(sql), Path(database), sandbox, Limits())
        if result.status is not Status.OK:
            reason = (result.error or result.status).rstrip(".")
            raise Text2SqlError(
                f"The verified SQL does not run on {database}: {reason}; nothing was changed."
            )


def given_fields(fields: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given; those of the expectations change ``expected``."""
    from text2sql.reporting.model.question import read_expectations

    given = {name: value for name, value in fields.items() if value is not None}
    names = ("columns", "least_rows", "most_rows", "not_empty")
    changes = {name: given.pop(name) for name in names if name in given}
    if "columns" in changes:
        named = changes["columns"].strip()
        changes["columns"] = [name.strip() for name in named.split(",")] if named else None
    if changes:
        given["expectations"] = read_expectations(expected | changes)
    if "verified_sql" in given:
        given["verified_sql"] = given["verified_sql"].strip() or None
    return given
