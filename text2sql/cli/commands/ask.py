"""``text2sql ask``: answer one question on one SQLite file with rows, SQL and vote share."""

from __future__ import annotations

import time
from pathlib import Path

import click

from text2sql.cli.options import chosen_policy
from text2sql.cli.options.types import FILE, IntegerRange
from text2sql.cli.options.usage import quoted
from text2sql.cli.output.answer_output import as_json, as_text, print_csv, unanswered
from text2sql.cli.output.live import Steps, Trace, shows_steps
from text2sql.errors import InfrastructureError
from text2sql.evaluation.promotion.champion import choose
from text2sql.questions import Question
from text2sql.rollouts.ask import AskStatus, ask, require_usable
from text2sql.rollouts.draw import Follower
from text2sql.sandbox import Sandbox

UNREACHABLE = 5
_EXIT = {AskStatus.ANSWERED: 0, AskStatus.NO_CONSENSUS: 3, AskStatus.NO_ANSWER: 4}
_SHOWN_ROWS = 1000
_WRITTEN_ROWS = 100_000


@click.command()
@click.argument("database", type=FILE)
@quoted("question")
@click.option("--evidence", help="Knowledge that the question leaves out.")
@chosen_policy.policy_option
@chosen_policy.model_option
@click.option(
    "--votes",
    type=IntegerRange(1, 64),
    default=1,
    help="Rollouts that vote; a single one is greedy.",
)
@chosen_policy.single_turn_flag
@click.option("--trace", is_flag=True, help="Show the conversation, step by step, as it happens.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
@click.option("--csv", "as_rows", is_flag=True, help="Print the rows as CSV with a header.")
def command(
    database: Path,
    question: str,
    evidence: str | None,
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
      3  no consensus: some of several rollouts returned rows, but no two the same
      4  no answer: no rollout submitted a query that ran and returned rows
      5  the policy server is unreachable or failed, or a worker failed
    """
    if as_object and as_rows:
        raise click.UsageError("Choose one of --json and --csv.")
    if not question.strip():
        raise click.UsageError("The question is empty; ask something.")
    asked = Question("ask", database.stem, database.absolute(), question, evidence or "")
    keep = _WRITTEN_ROWS if as_object or as_rows else _SHOWN_ROWS
    follower: Follower | None = Steps(votes) if shows_steps() else None
    if trace:
        follower = Trace(votes)
    with Sandbox() as sandbox:
        require_usable(asked.database, sandbox)  # before a model loads
        choice, started = choose(spec), time.monotonic()
        try:
            policy, settings = chosen_policy.open_chosen(choice, model, single_turn)
            opening = time.monotonic() - started
            work = ask(asked, policy, sandbox, settings, votes, keep, follower)
            found = chosen_policy.run_with(policy, work)
        except InfrastructureError as error:
            error.exit_code = UNREACHABLE
            raise
    if isinstance(follower, Trace):
        follower.end(found)
    if as_object:
        click.echo(as_json(found, asked, policy.info, opening))
    elif as_rows:
        if found.result is None:
            click.echo(unanswered(found), err=True)
        else:
            print_csv(found.result)
    else:
        click.echo(as_text(found, opening))
    if all(one.stop_reason == "no_action" for one in found.rollouts) and spec:
        click.echo(
            f"note: text2sql doctor --policy {spec} checks whether tool calls work", err=True
        )
    click.get_current_context().exit(_EXIT[found.status])
