"""``text2sql lineage``: where an answer, a training run or an accuracy comes from."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from text2sql.cli.options.reporting import with_store
from text2sql.cli.options.types import json_flag
from text2sql.common.artifacts import artifact_root
from text2sql.common.render import neutral

if TYPE_CHECKING:
    from text2sql.cli.lineage.chain import Chain
    from text2sql.reporting.model.answer import StoredAnswer
    from text2sql.reporting.tables.store import ReportingStore

BROKEN = 3
"""The exit status if something in the chain is missing or was edited."""
_WIDTH = 26


@click.command()
@click.argument("asked", metavar="NUMBER|ANSWER|RUN")
@click.option("--reporting", metavar="URL", help="The reporting database, for an answer.")
@json_flag
def command(asked: str, reporting: str | None, as_json: bool) -> None:
    """Show what an answer, a training run or an accuracy was made from.

    ANSWER is an integer (see text2sql answers list), RUN the name of a training run, and NUMBER a
    reported accuracy in percent, such as 63.3 or 63%. If the argument fits several of these,
    write answer:7, run:7 or accuracy:7%.

    The records are below the artifact root (TEXT2SQL_ROOT, or artifacts/). Files that are
    missing or no longer match their record are listed; the rest of the chain is shown.

    \b
    Exit status:
      0  the chain is complete
      1  the argument is unknown or ambiguous
      2  wrong usage
      3  something in the chain is missing or was edited
      6  the reporting database is down
    """
    from text2sql.cli.lineage.find import find_chain

    found = find_chain(artifact_root(), asked, partial(_answer, reporting=reporting))
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=1, default=str))
    else:
        click.echo(_text(found))
    raise SystemExit(BROKEN if found.problems else 0)


@with_store
def _answer(store: ReportingStore, number: int) -> StoredAnswer:
    return store.answer_by_id(number)


def _text(found: Chain) -> str:
    lines = []
    for link in found.links:
        facts = link.to_dict()["facts"]
        lines.append(f"{link.kind} {neutral(link.name)}".rstrip())
        lines += [f"  {name:<{_WIDTH}}{_shown(value)}".rstrip() for name, value in facts.items()]
        lines += ["  no facts: see below"] if link.problems and not facts else []
        lines.append("")
    if not found.problems:
        return "\n".join(lines[:-1])
    problems = [f"  {neutral(sentence)}" for sentence in found.problems]
    return "\n".join([*lines, "Not as recorded:", *problems])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{name} {one}" for name, one in value.items()]
    return neutral(", ".join(map(str, value)) if isinstance(value, list) else str(value))
