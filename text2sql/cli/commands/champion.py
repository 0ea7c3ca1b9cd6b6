"""``text2sql champion``: who answers, who did before, and changing that by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from text2sql.cli.options.dagster_record import record_champion
from text2sql.cli.options.groups import NamingGroup
from text2sql.cli.options.numbers import NumberIn, WholeNumber
from text2sql.cli.output.answer_output import format_table
from text2sql.common.artifacts import artifact_root
from text2sql.common.render import aligned, neutral
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import read_incumbent, run_of
from text2sql.evaluation.promotion.changes import (
    adopt,
    history,
    promote_by_hand,
    roll_back,
    weights_problem,
)
from text2sql.evaluation.promotion.gate import Finding, GateRules, objections

_COLUMNS = ("number", "promoted at", "act", "training run", "revision", "greedy", "by", "reason")
_FIELDS = (
    *("number", "training_run", "policy", "revision", "base_revision", "greedy", "dataset"),
    *("prompt_revision", "act", "promoted_at", "by", "reason", "dagster_run"),
)
_BOUNDS = (
    ("significance", "p-value below which a difference to the base or the champion is real"),
    ("write_rate", "share of rollouts that may try to write"),
    ("missing", "share of dev questions that may lack a valid result"),
    ("infrastructure", "share of rollouts that servers and workers may have spoilt"),
)
_reason = click.option("--reason", required=True, help="Why; it is kept in the history.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group(cls=NamingGroup)
def command() -> None:
    """See and change the champion: the policy that answers.

    It belongs to the artifact root (TEXT2SQL_ROOT, or ./artifacts). Usually the asset
    champion_policy promotes what passed its gate; see docs/promotion.md. What a command changes
    is recorded in Dagster, too, where its instance is there.

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
    root = artifact_root()
    read_incumbent(root)
    past = history(root)
    if not past:
        raise Text2SqlError(
            f"No champion below {root} yet: train one (make demo), or make a served "
            "model champion with text2sql champion adopt."
        )
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
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def show_history(as_json: bool) -> None:
    """List every champion, the earliest first; the last one answers now."""
    past = history(artifact_root())
    if as_json:
        for record in past:
            click.echo(json.dumps(_plain(record)))
        return
    rows = [tuple(str(row.get(_field(name), "")) for name in _COLUMNS) for row in map(_told, past)]
    click.echo(format_table(_COLUMNS, tuple(rows), len(rows), most=len(rows)))


def _bounds(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each bound of the gate."""
    for name, words in reversed(_BOUNDS):
        option = click.option(
            f"--{name.replace('_', '-')}",
            type=NumberIn(0, 1),
            default=getattr(GateRules(), name),
            show_default=True,
            help=f"As in Dagster's resource gate: {words}.",
        )
        function = option(function)
    return function


@command.command()
@click.argument("run", metavar="RUN")
@_reason
@_bounds
@_json
def promote(run: str, reason: str, as_json: bool, **bounds: Any) -> None:
    """Make the training run RUN champion by hand, whatever its checks say; they are recorded.

    RUN must have been trained and evaluated. The next answers are the new champion's; those that
    were given stay. The bounds only shape what is recorded of the checks.
    """
    root = artifact_root()
    record = promote_by_hand(root, run, reason, GateRules(**bounds))
    findings = [Finding(**finding) for finding in record["findings"]]
    lines = [f"{_mark(one.passed)} {one.check}: {neutral(one.sentence)}" for one in findings]
    lines.append(f"{_who(record)} is champion now, {objections(findings)}.")
    _changed(root, record, "\n".join(lines), as_json)


def _changed(root: Path, record: dict[str, Any], said: str, as_json: bool) -> None:
    """Say what was changed, then let Dagster record it."""
    click.echo(json.dumps(_plain(record)) if as_json else said)
    if problem := record_champion(root):
        click.echo(
            f"note: Dagster could not be told ({neutral(problem)}); it shows the champion when "
            "champion_policy is next materialized.",
            err=True,
        )


@command.command("adopt")
@click.argument("policy", metavar="POLICY")
@click.option("--model", help="The model to ask for, where a server has several.")
@_reason
@_json
def adopt_(policy: str, model: str | None, reason: str, as_json: bool) -> None:
    """Make POLICY champion as it is, without training or evaluating it.

    POLICY is a server's URL, a model directory, or 'pocket'. Which of a server's models it is is
    kept behind its URL, as URL#MODEL. Training runs that are evaluated later are compared with it:
    their evaluation asks it the same questions.

    \b
    text2sql champion adopt http://localhost:8000/v1 --reason "our first model"
    """
    root, (place, revision) = artifact_root(), _opened(policy, model)
    record = adopt(root, place, revision, reason)
    said = f"{_who(record)} is champion now; it has not been evaluated here."
    _changed(root, record, said, as_json)


def _opened(policy: str, model: str | None) -> tuple[str, str]:
    """Return where a policy is and the revision of its weights, having reached or loaded it."""
    import asyncio

    from text2sql.policy.open import open_policy, policy_directory, server_parts

    directory = policy_directory(policy)
    if directory and model:
        raise Text2SqlError(f"--model chooses a model of a server, and {policy} is none.")
    opened = open_policy(policy, model)
    asyncio.run(opened.close())
    served = f"{','.join(server_parts(policy)[0])}#{opened.info.name}"
    return str(directory or served), opened.info.revision


@command.command()
@click.option("--to", type=WholeNumber(), metavar="NUMBER", help="A number from the history.")
@_reason
@_json
def rollback(to: int | None, reason: str, as_json: bool) -> None:
    """Make the champion before the present one champion again; repeated, go back further.

    Its weights must be what they were. The next answers are its own; those that were given stay.
    """
    root = artifact_root()
    record = roll_back(root, reason, to)
    _changed(root, record, f"{_who(record)} is champion again.", as_json)


def _field(column: str) -> str:
    return column.replace(" ", "_")


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the outcome of each question, which are many."""
    return {name: value for name, value in record.items() if name != "outcomes"}


def _told(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as people read it: one that was adopted is of no training run."""
    return record | {"training_run": run_of(record)}


def _who(record: dict[str, Any]) -> str:
    name = run_of(record) or record["policy"]
    return f"{neutral(name)} (number {record['number']}, {record['revision']})"


def _text(record: dict[str, Any]) -> str:
    told = _told(record)
    lines = aligned(
        [(name.replace("_", " "), neutral(str(told[name]))) for name in _FIELDS if told.get(name)]
    )
    for finding in record.get("findings", []):
        words = f"{_mark(finding.get('passed'))} {finding.get('check')}: {finding.get('sentence')}"
        lines.append(neutral(words))
    return "\n".join(lines)


def _mark(passed: bool | None) -> str:
    if passed is None:
        return "not run "
    return "passed  " if passed else "FAILED  "
