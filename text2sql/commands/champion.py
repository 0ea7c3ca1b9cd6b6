"""``text2sql champion``: who answers, who did before, and changing that by hand."""

from __future__ import annotations

import json
from typing import Any

import click

from text2sql.champion import local_root, read_seat
from text2sql.champion_history import history, roll_back, weights_problem
from text2sql.commands.answer_output import format_table
from text2sql.errors import Text2SqlError
from text2sql.promoting import adopt, promote_by_hand
from text2sql.promotion import Finding, GateRules, by_hand
from text2sql.render import neutral

_COLUMNS = ("number", "promoted at", "act", "training run", "revision", "greedy", "by", "reason")
_FIELDS = (
    *("number", "training_run", "policy", "revision", "base_revision", "greedy", "dataset"),
    *("prompt_revision", "act", "promoted_at", "by", "reason", "dagster_run"),
)
_reason = click.option("--reason", required=True, help="Why; it is kept in the history.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """See and change the champion: the policy that answers.

    It belongs to the artifact root (TEXT2SQL_ROOT, or ./artifacts). Usually the asset
    champion_policy promotes what passed its gate; see docs/promotion.md.

    \b
    Exit status:
      0  done
      1  something to mend: no champion, no such run, a file that was edited, weights that are gone
      2  wrong usage
    """


@command.command()
@_json
def show(as_json: bool) -> None:
    """Show who is champion, what its gate said, and whether its weights are still there."""
    root = local_root()
    read_seat(root)
    past = history(root)
    if not past:
        raise Text2SqlError(f"There is no champion below {root} yet.")
    record, problem = past[-1], weights_problem(past[-1])
    if as_json:
        click.echo(json.dumps(_plain(record) | {"problem": problem}))
    else:
        click.echo(_text(record))
    if problem:
        raise Text2SqlError(
            f"The champion cannot answer: {problem}. Go back with text2sql champion rollback."
        )


@command.command("history")
@_json
def show_history(as_json: bool) -> None:
    """List every champion, the earliest first; the last one answers now."""
    past = history(local_root())
    if as_json:
        click.echo(json.dumps([_plain(record) for record in past]))
        return
    rows = [tuple(str(record.get(_field(name), "")) for name in _COLUMNS) for record in past]
    click.echo(format_table(_COLUMNS, tuple(rows), len(rows), most=len(rows)))


@command.command()
@click.argument("run", metavar="RUN")
@_reason
@_json
def promote(run: str, reason: str, as_json: bool) -> None:
    """Make the training run RUN champion by hand, whatever its checks say; they are recorded.

    RUN must have been trained and evaluated. The next answers are the new champion's; those that
    were given stay.
    """
    record = promote_by_hand(local_root(), run, reason, GateRules())
    if as_json:
        click.echo(json.dumps(_plain(record)))
        return
    findings = [Finding(**finding) for finding in record["findings"]]
    for finding in findings:
        click.echo(f"{_mark(finding.passed)} {finding.check}: {neutral(finding.sentence)}")
    click.echo(f"{_who(record)} is champion now, {by_hand(findings)}.")


@command.command("adopt")
@click.argument("policy", metavar="POLICY")
@click.option("--model", help="The model to ask for, where a server has several.")
@_reason
@_json
def adopt_(policy: str, model: str | None, reason: str, as_json: bool) -> None:
    """Make POLICY champion as it is, without training or evaluating it.

    POLICY is a server's URL, a model directory, or 'pocket'. Several models of one server need
    the same --model as the resource policy has in Dagster.

    \b
    text2sql champion adopt http://localhost:8000/v1 --reason "our first model"
    """
    place, revision = _opened(policy, model)
    record = adopt(local_root(), place, revision, reason)
    said = f"{_who(record)} is champion now; nothing here has evaluated it."
    click.echo(json.dumps(_plain(record)) if as_json else said)


def _opened(policy: str, model: str | None) -> tuple[str, str]:
    """Return where a policy is and the revision of its weights, having reached or loaded it."""
    import asyncio

    from text2sql.policy.open import open_policy, policy_directory

    opened = open_policy(policy, model)
    asyncio.run(opened.close())
    return str(policy_directory(policy) or policy), opened.info.revision


@command.command()
@click.option("--to", type=int, metavar="NUMBER", help="A number from the history.")
@_reason
@_json
def rollback(to: int | None, reason: str, as_json: bool) -> None:
    """Make the champion before the present one champion again; repeated, go back further.

    Its weights must be what they were. The next answers are its own; those that were given stay.
    """
    record = roll_back(local_root(), reason, to)
    said = f"{_who(record)} is champion again."
    click.echo(json.dumps(_plain(record)) if as_json else said)


def _field(column: str) -> str:
    return column.replace(" ", "_")


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the outcome of each question, which are many."""
    return {name: value for name, value in record.items() if name != "outcomes"}


def _who(record: dict[str, Any]) -> str:
    return f"{neutral(record['training_run'])} (number {record['number']}, {record['revision']})"


def _text(record: dict[str, Any]) -> str:
    shown = {name: str(record[name]) for name in _FIELDS if record.get(name)}
    width = max(map(len, shown))
    lines = [
        f"{name.replace('_', ' '):<{width}}  {neutral(value)}" for name, value in shown.items()
    ]
    for finding in record.get("findings", []):
        words = f"{_mark(finding.get('passed'))} {finding.get('check')}: {finding.get('sentence')}"
        lines.append(neutral(words))
    return "\n".join(lines)


def _mark(passed: bool | None) -> str:
    if passed is None:
        return "not held"
    return "passed  " if passed else "FAILED  "
