"""``text2sql sql``: one statement, exactly as the agent's run_sql would run it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from text2sql.errors import InfrastructureError
from text2sql.plain import plain_rows
from text2sql.questions import Question
from text2sql.sandbox import QueryResult, Sandbox, Status, check_database, clean_sql
from text2sql.settings import AgentSettings
from text2sql.tools import Tools, query_limits

_EXIT = {
    Status.OK: 0,
    Status.WRITE: 3,
    Status.ERROR: 4,
    Status.NO_STATEMENT: 4,
    Status.TIMEOUT: 5,
    Status.TOO_LARGE: 5,
}


@click.command()
@click.argument("database", type=click.Path(path_type=Path, readable=False))
@click.argument("statement")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def command(database: Path, statement: str, as_json: bool) -> None:
    """Run one read-only STATEMENT on the SQLite file DATABASE.

    \b
    Exit status:
      0  it ran, and its rows are shown
      1  the database is missing, damaged or no SQLite file
      2  wrong usage
      3  refused: it would change something
      4  an error in the statement, or no statement
      5  over a limit: time, memory or size
      6  a worker failed, or the database did (locked, damaged inside)
    """
    path = check_database(database)
    with Sandbox(workers=1) as sandbox:
        show = _as_json if as_json else _as_text
        status, text = show(path, statement, sandbox)
    click.echo(text)
    raise SystemExit(_EXIT[status])


def _as_text(database: Path, statement: str, sandbox: Sandbox) -> tuple[Status, str]:
    if not statement.strip():
        return Status.NO_STATEMENT, "error: there is no SQL statement to run"
    question = Question(key="", db_id=database.stem, database=database, question="")
    tools = Tools(question, sandbox, AgentSettings())
    text = asyncio.run(tools.call("run_sql", {"sql": statement}))
    status = tools.log[-1].status if tools.log[-1].status in set(Status) else Status.ERROR
    return Status(status), text


def _as_json(database: Path, statement: str, sandbox: Sandbox) -> tuple[Status, str]:
    result = sandbox.execute(database, clean_sql(statement), query_limits(AgentSettings()))
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(f"{result.error}.")
    return result.status, json.dumps(_as_object(result), allow_nan=False)


def _as_object(result: QueryResult) -> dict[str, Any]:
    return {
        "status": result.status.value,
        "columns": result.columns,
        "rows": plain_rows(result.rows),
        "row_count": result.row_count,
        "complete": result.complete,
        "warnings": result.warnings,
        "error": result.error,
        "seconds": round(result.seconds, 6),
    }
