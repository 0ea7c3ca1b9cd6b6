"""``text2sql compare``: two evaluations of the same questions, paired."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import get_args

import click

from text2sql.cli.options.types import json_flag
from text2sql.common.artifacts import artifact_root
from text2sql.common.counting import counted
from text2sql.common.render import neutral
from text2sql.evaluation.compare import Difference, compare_sides, read_side
from text2sql.evaluation.report.words import difference, percent
from text2sql.judge.equality import Rule

_SHOWN = 20


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--rule",
    type=click.Choice(get_args(Rule)),
    help="Compare by this rule; needs files of evaluate --all-rules; default: evaluate's.",
)
@json_flag
def command(first: str, second: str, rule: str | None, as_json: bool) -> None:
    """Compare evaluation B with evaluation A on the same questions.

    A and B are two training runs below the artifact root (TEXT2SQL_ROOT, or artifacts/), or two
    JSON files that `text2sql evaluate --json` wrote. If a file has several systems, name one:
    result.json:SYSTEM. Questions without a valid result in either of them are left out and counted;
    a note says if the prompts differ. For each setting it prints both accuracies, their difference
    in percentage points with its paired 95 % interval (Agresti and Min), the questions gained and
    lost, and McNemar's exact p.

    \b
    Exit status:
      0  compared
      1  an error you can fix: no such run or file, different questions or databases
      2  wrong usage
    """
    root = artifact_root()
    one, two = read_side(first, root, rule), read_side(second, root, rule)
    found = compare_sides(one, two)
    if one.prompts != two.prompts:
        click.echo(
            f"note: A was asked with the prompt revision {one.prompts or 'unknown'}, B with "
            f"{two.prompts or 'unknown'}: policy and prompts both differ.",
            err=True,
        )
    for name in sorted(one.conditions.keys() & two.conditions.keys()):
        of_a, of_b = (neutral(str(side.conditions[name])) for side in (one, two))
        if of_a != of_b:
            click.echo(f"note: A was scored with {name} {of_a}, B with {of_b}.", err=True)
    if as_json:
        rows = {setting: asdict(its) for setting, its in found.items()}
        about = {"a": first, "b": second, "fingerprint": one.fingerprint}
        click.echo(json.dumps(about | {"settings": rows}))
        return
    for setting, its in found.items():
        click.echo(_text(setting, its))


def _text(setting: str, its: Difference) -> str:
    n, lines = its.comparison.n, [f"{setting}: n = 0"]
    if n:
        change, low, high = (100 * one for one in (its.second - its.first, its.low, its.high))
        lines = [
            f"{setting}: A {percent(its.first)}, B {percent(its.second)}, n = {n}",
            f"  B minus A: {change:+.1f} points [{low:+.1f}, {high:+.1f}], paired 95 % interval",
        ]
    lines.append(f"  {difference(its.comparison, 'A')}")
    if its.only_one:
        only = counted(its.only_one, "question has", "questions have")
        lines.append(f"  partial: {only} a result in only one of the two")
    for name, keys in (("gained", its.gained), ("lost", its.lost)):
        if keys:
            more = f" and {len(keys) - _SHOWN} more (--json has all)" if keys[_SHOWN:] else ""
            lines.append(f"  {name}: {', '.join(map(neutral, keys[:_SHOWN]))}{more}")
    return "\n".join(lines)
