"""``text2sql ask``: answer one question on one SQLite file with rows, SQL and vote share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from text2sql.agent.settings import AgentSettings
from text2sql.cli.options.chosen_policy import (
    model_option,
    open_chosen,
    policy_option,
    wrong_usage,
)
from text2sql.cli.options.numbers import IntegerRange
from text2sql.cli.options.usage import quoted
from text2sql.cli.output.answer_output import as_csv, as_json, as_text, unanswered
from text2sql.cli.output.live import Steps, Trace, shows_steps
from text2sql.errors import InfrastructureError
from text2sql.evaluation.promotion.champion import choose
from text2sql.policy.base import Policy
from text2sql.questions import Question
from text2sql.rollouts.ask import AskResult, AskStatus, ask, require_usable
from text2sql.rollouts.draw import Follower
from text2sql.sandbox import Sandbox

UNREACHABLE = 5
_EXIT = {AskStatus.ANSWERED: 0, AskStatus.NO_CONSENSUS: 3, AskStatus.NO_ANSWER: 4}
_SHOWN_ROWS = 1000
_WRITTEN_ROWS = 100_000


@click.command()
@click.argument("database", type=click.Path(path_type=Path, readable=False))
@quoted("question")
@click.option("--evidence", default="", help="Knowledge that the question leaves out.")
@policy_option
@model_option
@click.option(
    "--votes",
    type=IntegerRange(1, 64),
    default=1,
    show_default=True,
    help="Rollouts that vote; a single one is greedy.",
)
@click.option("--single-turn", is_flag=True, help="Schema in, SQL out: one reply, no tools.")
@click.option("--trace", is_flag=True, help="Show the conversation, step by step, as it happens.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
@click.option("--csv", "as_rows", is_flag=True, help="Print the rows as CSV with a header.")
def command(
    database: Path,
    question: str,
    evidence: str,
    spec: str | None,
    model: str | None,
    votes: int,
    single_turn: bool,
    trace: bool,
    as_object: bool,
    as_rows: bool,
) -> None:
    """Answer QUESTION on the SQLite file DATABASE.

    Standard output has only the answer; on a terminal the agent's steps appear on standard error.
    JSON and CSV have at most 100,000 rows, with blobs as hexadecimal digits. Gives up on an
    unresponsive server after 15 minutes.

    \b
    Exit status:
      0  answered: the query of the only rollout returned rows, or at least two
         of several rollouts returned the same rows
      1  an error you can fix: the database, the policy, the output
      2  wrong usage
      3  no consensus: of several rollouts some returned rows, no two the same
      4  no answer: no rollout submitted a query that ran and returned rows
      5  the policy server is unreachable or failed, or a worker failed
    """
    if as_object and as_rows:
        raise click.UsageError("Choose one of --json and --csv.")
    if not question.strip():
        raise wrong_usage("The question is empty; ask something.")
    asked = Question("ask", database.stem, database.absolute(), question, evidence)
    keep = _WRITTEN_ROWS if as_object or as_rows else _SHOWN_ROWS
    with Sandbox() as sandbox:
        require_usable(asked.database, sandbox)  # before a model loads
        choice, started = choose(spec), time.monotonic()
        with _unreachable():
            policy, settings = open_chosen(choice, model, single_turn)
            opening = time.monotonic() - started
            follower = _follower(votes, trace)
            found = asyncio.run(_ask(asked, policy, sandbox, settings, votes, keep, follower))
    if isinstance(follower, Trace):
        follower.end(found)
    if as_object:
        click.echo(as_json(found, asked, policy.info, opening))
    elif as_rows:
        _print_csv(found)
    else:
        click.echo(as_text(found, opening))
    if all(one.stop_reason == "no_action" for one in found.rollouts) and spec:
        click.echo(
            f"note: text2sql doctor --policy {spec} checks whether tool calls work", err=True
        )
    click.get_current_context().exit(_EXIT[found.status])


async def _ask(
    asked: Question,
    policy: Policy,
    sandbox: Sandbox,
    settings: AgentSettings,
    votes: int,
    keep_rows: int,
    follower: Follower | None,
) -> AskResult:
    try:
        return await ask(asked, policy, sandbox, settings, votes, keep_rows, follower)
    finally:
        await policy.close()


def _follower(votes: int, trace: bool) -> Follower | None:
    if trace:
        return Trace(votes)
    return Steps(votes) if shows_steps() else None


def _print_csv(found: AskResult) -> None:
    click.echo(
        as_csv(found), nl=False, color=True
    )  # keeps escape sequences, which click would drop
    result = found.result
    if result is None:
        click.echo(unanswered(found), err=True)
    elif len(result.rows) < result.row_count:
        click.echo(f"note: the first {len(result.rows)} of {result.row_count} rows.", err=True)


@contextmanager
def _unreachable() -> Iterator[None]:
    """Give failures of a server or a worker their own exit status."""
    try:
        yield
    except InfrastructureError as error:
        error.exit_code = UNREACHABLE
        raise
