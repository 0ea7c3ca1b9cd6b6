"""``text2sql sql``: run one statement exactly as the agent's run_sql would."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import click

from text2sql.agent.settings import AgentSettings
from text2sql.agent.tools import Tools, query_limits
from text2sql.cli.options.types import FILE
from text2sql.cli.options.usage import quoted
from text2sql.cli.output.answer_output import print_csv
from text2sql.common.values import json_rows
from text2sql.errors import InfrastructureError
from text2sql.questions import Question
from text2sql.sandbox import Sandbox, Status, check_database, clean_sql

_EXIT = {
    Status.OK: 0,
    Status.WRITE: 3,
    Status.ERROR: 4,
    Status.NO_STATEMENT: 4,
    Status.TIMEOUT: 5,
    Status.TOO_LARGE: 5,
}
_WRITTEN_ROWS = 100_000


@click.command()
@click.argument("database", type=FILE)
@quoted("statement")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--csv", "as_rows", is_flag=True, help="Print the rows as CSV with a header.")
def command(database: Path, statement: str, as_json: bool, as_rows: bool) -> None:
    """Run one read-only STATEMENT on the SQLite file DATABASE.

    Prints what the agent would see: at most 50 rows, with long cells cut. JSON and CSV have
    complete cells, and at most 100,000 rows.

    \b
    Exit status:
      0  it ran; its rows are shown
      1  the database is missing, damaged or not a SQLite file
      2  wrong usage
      3  refused: it would change something
      4  the statement is missing or has an error
      5  over a limit: time, memory or size
      6  a worker or the database failed (locked, damaged inside)
    """
    if as_json and as_rows:
        raise click.UsageError("Choose one of --json and --csv.")
    path = check_database(database)
    with Sandbox(workers=1) as sandbox:
        if not (as_json or as_rows):
            status, text = _as_text(path, statement, sandbox)
            click.echo(text)
            raise SystemExit(_EXIT[status])
        limits = replace(query_limits(AgentSettings()), keep_rows=_WRITTEN_ROWS)
        result = sandbox.execute(path, clean_sql(statement), limits)
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(f"{result.error}.")
    if as_json:
        found = {
            "status": result.status.value,
            "columns": result.columns,
            "rows": json_rows(result.rows),
            "row_count": result.row_count,
            "complete": result.complete and len(result.rows) == result.row_count,
            "warnings": result.warnings,
            "error": result.error,
            "seconds": round(result.seconds, 6),
        }
        click.echo(json.dumps(found, allow_nan=False))
    elif result.status is not Status.OK:
        click.echo(f"error: {result.error or result.status.value}", err=True)
    else:
        print_csv(result)
    raise SystemExit(_EXIT[result.status])


def _as_text(database: Path, statement: str, sandbox: Sandbox) -> tuple[Status, str]:
    if not statement.strip():
        return Status.NO_STATEMENT, "error: The SQL is empty: give a statement, like SELECT 1."
    question = Question(key="", db_id=database.stem, database=database, question="")
    tools = Tools(question, sandbox, AgentSettings())
    text = asyncio.run(tools.call("run_sql", {"sql": statement}))
    status = tools.log[-1].status if tools.log[-1].status in set(Status) else Status.ERROR
    return Status(status), text
