"""``text2sql ask``: one question on one SQLite file, answered with rows, SQL and vote share."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import click

from text2sql.agent import Episode
from text2sql.asking import Answer, answer
from text2sql.errors import Text2SqlError
from text2sql.policy.base import Policy
from text2sql.policy.open import POCKET, open_policy, policy_directory
from text2sql.questions import Question
from text2sql.render import neutral, render_cell
from text2sql.sandbox import Sandbox
from text2sql.schema import describe
from text2sql.settings import AgentSettings

_SHOWN_ROWS = 50
_CELL_CHARS = 60
NO_ANSWER = 4


@click.command()
@click.argument("database", type=click.Path(path_type=Path))
@click.argument("question")
@click.option(
    "--policy",
    "spec",
    default=POCKET,
    show_default=True,
    help="Who answers: 'pocket', a model directory, or the URL of an OpenAI-compatible server.",
)
@click.option("--model", help="The model to ask for, where a server has several.")
@click.option(
    "--votes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Rollouts that vote; one is greedy.",
)
@click.option("--evidence", default="", help="What the question leaves unsaid.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--transcript", is_flag=True, help="Show the conversations on standard error.")
def command(
    database: Path,
    question: str,
    spec: str,
    model: str | None,
    votes: int,
    evidence: str,
    as_json: bool,
    transcript: bool,
) -> None:
    """Answer QUESTION on the SQLite file DATABASE.

    Exit status: 0 answered, 4 no answer or no agreement, 1 something to mend, 6 the policy
    server or a worker failed.
    """
    if not question.strip():
        raise Text2SqlError("The question is empty; ask something.")
    asked = Question("ask", database.stem, database.absolute(), question, evidence)
    with Sandbox() as sandbox:
        describe(asked.database, sandbox)  # an unusable database is told before a model loads
        policy = open_policy(spec, model)
        click.echo(f"policy: {policy.info.name} ({policy.info.revision})", err=True)
        settings = AgentSettings.for_policy(policy_directory(spec))
        found = asyncio.run(_ask(asked, policy, sandbox, settings, votes))
    if transcript:
        for episode in found.episodes:
            click.echo(_transcript(episode), err=True)
    click.echo(json.dumps(_as_json(found, asked, policy)) if as_json else _as_text(found))
    if found.result is None:
        click.get_current_context().exit(NO_ANSWER)


async def _ask(
    asked: Question, policy: Policy, sandbox: Sandbox, settings: AgentSettings, votes: int
) -> Answer:
    try:
        return await answer(asked, policy, sandbox, settings, votes)
    finally:
        await policy.close()


def _as_text(found: Answer) -> str:
    if found.result is None:
        return f"No answer: {found.reason}"
    sql = "\n".join(neutral(line) for line in found.vote.sql.strip().splitlines())
    agreed = f"{found.vote.votes} of {found.vote.k} ({found.vote.share:.0%})"
    tie = ", a tie" if found.vote.tie else ""
    table = format_table(found.result.columns, found.result.rows, found.result.row_count)
    return f"{table}\n\nSQL: {sql}\nShare: {agreed}{tie}\n{_cost(found)}"


def _cost(found: Answer) -> str:
    tokens = sum(e.prompt_tokens + e.completion_tokens for e in found.episodes)
    seconds = max(episode.seconds for episode in found.episodes)
    turns = sum(episode.turns for episode in found.episodes)
    return f"Cost: {turns} turns, {tokens:,} tokens, {seconds:.1f} s"


def format_table(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], total: int) -> str:
    """Lay rows out in columns for a terminal, with the number of rows; long cells are cut."""
    shown = [[render_cell(value, _CELL_CHARS) for value in row] for row in rows[:_SHOWN_ROWS]]
    table = [[neutral(name) for name in columns], *shown]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    unit = "row" if total == 1 else "rows"
    count = f"{total} {unit}" if total == len(shown) else f"{len(shown)} of {total} {unit} shown"
    return "\n".join([*(line.rstrip() for line in lines), f"({count})"])


def _as_json(found: Answer, asked: Question, policy: Policy) -> dict[str, Any]:
    result = found.result
    return {
        "question": asked.question,
        "database": str(asked.database),
        "status": "no_answer" if result is None else "answered",
        "reason": found.reason,
        "columns": list(result.columns) if result else [],
        "rows": [[_plain(value) for value in row] for row in result.rows] if result else [],
        "row_count": result.row_count if result else 0,
        "sql": found.vote.sql or None,
        "share": found.vote.share,
        "votes": found.vote.votes,
        "k": found.vote.k,
        "tie": found.vote.tie,
        "policy": policy.info.name,
        "policy_revision": policy.info.revision,
        "stop_reasons": [episode.stop_reason for episode in found.episodes],
        "prompt_tokens": sum(episode.prompt_tokens for episode in found.episodes),
        "completion_tokens": sum(episode.completion_tokens for episode in found.episodes),
        "seconds": round(max(episode.seconds for episode in found.episodes), 3),
    }


def _plain(value: Any) -> Any:
    """Return a value that JSON has: blobs as SQL's hexadecimal literals, infinities as text."""
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _transcript(episode: Episode) -> str:
    """Show a conversation with the calls in it; results of tools were neutralised before."""
    lines: list[str] = []
    for message in episode.messages:
        text = "\n".join(neutral(line) for line in (message.get("content") or "").splitlines())
        lines += [f"[{message['role']}] {text}".rstrip()]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            lines.append(f"  -> {neutral(function['name'])} {neutral(function['arguments'])}")
    return "\n".join([*lines, f"[end] {episode.stop_reason} {episode.error}".rstrip(), ""])
