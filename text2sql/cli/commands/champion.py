"""``text2sql champion``: show the champion and its history, and change it by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from text2sql.cli.options.dagster import record_champion
from text2sql.cli.options.types import json_flag, json_lines_flag, setting_option
from text2sql.cli.options.usage import NamingGroup
from text2sql.cli.output.answer_output import format_table
from text2sql.common.artifacts import artifact_root
from text2sql.common.render import aligned, neutral
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion import changes
from text2sql.evaluation.promotion.champion import read_incumbent, run_of
from text2sql.evaluation.promotion.gate import Finding, GateRules, objections

_COLUMNS = ("number", "promoted at", "act", "training run", "revision", "greedy", "by", "reason")
_FIELDS = (
    *("number", "training_run", "policy", "revision", "base_revision", "greedy", "dataset"),
    *("prompt_revision", "act", "promoted_at", "by", "reason", "dagster_run"),
)
_reason = click.option("--reason", required=True, help="Why; stored in the history.")


@click.group(cls=NamingGroup)
def command() -> None:
    """Show and change the champion: the policy that answers.

    Each artifact root (TEXT2SQL_ROOT, or artifacts/) has its own champion. Usually the asset
    champion_policy promotes a training run that passed its gate; see docs/promotion.md. Changes
    made by a command are also recorded in Dagster if the project has an instance.

    \b
    Exit status:
      0  done
      1  an error you can fix: no champion, no such run, an edited file, missing weights
      2  wrong usage
    """


@command.command()
@json_flag
def show(as_json: bool) -> None:
    """Show the champion and what its gate found.

    Fails if its weights are missing or have changed.
    """
    root = artifact_root()
    read_incumbent(root)
    past = changes.history(root)
    if not past:
        raise Text2SqlError(
            f"No champion below {root} yet: train one (make demo), or make a served "
            "model champion with text2sql champion adopt."
        )
    record, problem = past[-1], changes.weights_problem(past[-1])
    if as_json:
        click.echo(_as_json(record | {"problem": problem}))
    else:
        values = _shown(record)
        shown = [(name, str(values[name])) for name in _FIELDS if values.get(name)]
        lines = aligned([(name.replace("_", " "), neutral(value)) for name, value in shown])
        click.echo("\n".join([*lines, *_finding_lines(record)]))
    if problem:
        raise Text2SqlError(
            f"The champion cannot answer: {problem}. Go back with text2sql champion rollback."
        )


@command.command("history")
@json_lines_flag
def show_history(as_json: bool) -> None:
    """List all champions, the earliest first; the last one answers."""
    past = changes.history(artifact_root())
    if as_json:
        for record in past:
            click.echo(_as_json(record))
        return
    names = [column.replace(" ", "_") for column in _COLUMNS]
    rows = [tuple(str(row.get(name, "")) for name in names) for row in map(_shown, past)]
    click.echo(format_table(_COLUMNS, tuple(rows), len(rows), most=len(rows)))


def _limits(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each numeric rule of the gate."""
    for rule in reversed(fields(GateRules)):
        if isinstance(rule.default, float):
            function = setting_option(rule)(function)
    return function


@command.command()
@click.argument("run", metavar="RUN")
@_reason
@_limits
@json_flag
def promote(run: str, reason: str, as_json: bool, **limits: Any) -> None:
    """Make the training run RUN champion by hand.

    RUN must have been trained and evaluated. Its checks run with the given limits, and the history
    records what they found; RUN becomes champion even if one fails. The new champion answers from
    now on; earlier answers stay.
    """
    root = artifact_root()
    record = changes.promote_by_hand(root, run, reason, GateRules(**limits))
    objected = objections([Finding(**finding) for finding in record["findings"]])
    said = f"{_who(record)} is champion now, {objected}."
    _changed(root, record, "\n".join([*_finding_lines(record), said]), as_json)


def _changed(root: Path, record: dict[str, Any], said: str, as_json: bool) -> None:
    """Print the change, then let Dagster record it."""
    click.echo(_as_json(record) if as_json else said)
    if problem := record_champion(root):
        click.echo(
            f"note: Dagster could not record it ({neutral(problem)}); it will show the champion "
            "once champion_policy is materialized again.",
            err=True,
        )


@command.command("adopt")
@click.argument("policy", metavar="POLICY")
@click.option("--model", help="Which model to use if the server has several.")
@_reason
@json_flag
def adopt_(policy: str, model: str | None, reason: str, as_json: bool) -> None:
    """Make POLICY champion without training or evaluating it.

    POLICY is a server's URL, a model directory, or 'pocket'. A served model is stored as
    URL#MODEL. The evaluations of later training runs also ask it their questions, to compare with.

    \b
    text2sql champion adopt http://localhost:8000/v1 --reason "our first model"
    """
    import asyncio

    from text2sql.policy.open import open_policy, policy_directory, server_parts

    directory = policy_directory(policy)
    if directory and model:
        raise Text2SqlError(f"--model chooses a model of a server, but {policy} is not a server.")
    opened = open_policy(policy, model)
    asyncio.run(opened.close())
    place = directory or f"{','.join(server_parts(policy)[0])}#{opened.info.name}"
    root = artifact_root()
    record = changes.adopt(root, str(place), opened.info.revision, reason)
    said = f"{_who(record)} is champion now; it has not been evaluated here."
    _changed(root, record, said, as_json)


@command.command()
@click.option("--to", type=int, metavar="NUMBER", help="Go back to this number of the history.")
@_reason
@json_flag
def rollback(to: int | None, reason: str, as_json: bool) -> None:
    """Make the previous champion champion again.

    Repeat to go further back. The weights must not have changed. The champion answers from now on;
    earlier answers stay.
    """
    root = artifact_root()
    record = changes.roll_back(root, reason, to)
    _changed(root, record, f"{_who(record)} is champion again.", as_json)


def _as_json(record: dict[str, Any]) -> str:
    """Return a record as JSON without its outcomes, one for each question."""
    return json.dumps({name: value for name, value in record.items() if name != "outcomes"})


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as people read it: an adopted champion has no training run."""
    return record | {"training_run": run_of(record)}


def _who(record: dict[str, Any]) -> str:
    name = run_of(record) or record["policy"]
    return f"{neutral(name)} (number {record['number']}, {record['revision']})"


def _finding_lines(record: dict[str, Any]) -> list[str]:
    marks = {None: "not run ", True: "passed  ", False: "FAILED  "}
    return [
        neutral(f"{marks[one.get('passed')]} {one.get('check')}: {one.get('sentence')}")
        for one in record.get("findings", [])
    ]
