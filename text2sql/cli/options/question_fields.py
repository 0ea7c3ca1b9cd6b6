"""The fields of a question as options of a command, and what was given of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from text2sql.errors import Text2SqlError


def question_fields(work: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each field of a question; None where it is not given."""
    options = [
        click.option("--evidence", help="What the question leaves unsaid."),
        click.option("--votes", type=int, help="Candidates that are asked for (8)."),
        click.option("--minimum-share", type=float, help="Less agreement publishes nothing (0.5)."),
        click.option("--timezone", help="Where the day begins, such as Europe/Berlin (UTC)."),
        click.option(
            "--group",
            help="When it is due: daily, weekdays, weekly (Mondays), monthly (the first), or a"
            " name of your own, which is due daily (daily).",
        ),
        click.option("--owner", help="Who is to be asked about it."),
        click.option(
            "--verified-sql", help="SQL that answers are compared with; '' takes it away."
        ),
        click.option("--columns", help="Expect exactly these columns: a,b,c; '' expects none."),
        click.option("--least-rows", type=int, help="Expect at least so many rows."),
        click.option("--most-rows", type=int, help="Expect at most so many rows."),
        click.option("--not-empty/--may-be-empty", default=None, help="Expect a value not NULL."),
    ]
    for option in reversed(options):
        work = option(work)
    return work


def require_running(sql: str | None, database: str) -> None:
    """Refuse verified SQL that does not run as a reading query."""
    from text2sql.judge.verdicts import execute_submission
    from text2sql.sandbox import Limits, Sandbox, Status, clean_sql

    if sql:
        with Sandbox(workers=1) as sandbox:
            result = execute_submission(clean_sql(sql), Path(database), sandbox, Limits())
        if result.status is not Status.OK:
            reason = (result.error or result.status).rstrip(".")
            raise Text2SqlError(
                f"the verified SQL does not run on {database}: {reason}; nothing was changed"
            )


def given_fields(fields: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given, those of the expectations as one changed whole."""
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
