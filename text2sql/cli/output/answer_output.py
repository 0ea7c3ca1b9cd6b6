"""An answer as text for people, as one JSON object, or as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import click

from text2sql.common.counting import counted
from text2sql.common.render import aligned, neutral, render_cell
from text2sql.common.values import csv_value, json_rows
from text2sql.policy.base import PolicyInfo
from text2sql.questions import Question
from text2sql.rollouts.ask import AskResult, AskStatus, fate
from text2sql.sandbox import QueryResult

_SHOWN_ROWS = 50
_CELL_CHARS = 60
_TITLES = {AskStatus.NO_CONSENSUS: "No consensus", AskStatus.NO_ANSWER: "No answer"}


def as_text(found: AskResult, opening: float) -> str:
    """Return an answer for a terminal: rows, SQL, share and cost, or the reason without one.

    ``opening`` is the seconds it took to open the policy.
    """
    rollouts, vote = found.rollouts, found.vote
    if found.result is None:
        lines = [unanswered(found)]
        fates = {one.sql: fate(one) for one in found.valid if one.sql is not None}
        for sql, end in fates.items():
            lines += [_sql(sql)] if len(fates) == 1 else [_sql(sql), f"  {neutral(end)}"]
    else:
        table = format_table(found.result.columns, found.result.rows, found.result.row_count)
        share = f"Share: {vote.votes} of {vote.k} ({vote.share:.0%})"
        share += ", a tie" if vote.tie else ""
        share += f"; {len(found.lost)} failed: {neutral(found.lost[0].error)}" if found.lost else ""
        lines = [table, "", _sql(vote.sql), share]
    tokens = sum(one.prompt_tokens + one.completion_tokens for one in rollouts)
    spent = f"{counted(sum(one.turns for one in rollouts), 'turn')}, {counted(tokens, 'token')}"
    seconds = f"{max(one.seconds for one in rollouts):.1f} s"
    lines.append(f"Cost: {spent}, {seconds}, after {opening:.1f} s to open the policy")
    return "\n".join(lines)


def unanswered(found: AskResult) -> str:
    """Return the reason for no answer."""
    return f"{_TITLES[found.status]}: {found.reason}"


def _sql(sql: str) -> str:
    return "\n".join(map(neutral, f"SQL: {sql.strip()}".splitlines()))


def format_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], total: int, most: int = _SHOWN_ROWS
) -> str:
    """Lay rows out in columns for a terminal, with the number of rows; long cells are cut."""
    shown = [[render_cell(value, _CELL_CHARS) for value in row] for row in rows[:most]]
    table = [[neutral(name) for name in columns], *shown]
    unit = "row" if total == 1 else "rows"
    count = f"{total} {unit}" if total == len(shown) else f"{len(shown)} of {total} {unit} shown"
    return "\n".join([*aligned(table, underlined=True), f"({count})"])


def as_json(found: AskResult, asked: Question, policy: PolicyInfo, opening: float) -> str:
    """Write an answer as one JSON object.

    ``seconds`` is the wall-clock time of the slowest rollout, ``opening_seconds`` that of opening
    the policy before; ``share`` lies between 0 and 1.
    """
    result = found.result
    values = {
        "question": asked.question,
        "database": str(asked.database),
        "status": found.status.value,
        "reason": found.reason,
        "columns": list(result.columns) if result else [],
        "rows": json_rows(result.rows) if result else [],
        "row_count": result.row_count if result else 0,
        "sql": found.vote.sql if result else None,
        "share": found.vote.share,
        "votes": found.vote.votes,
        "k": found.vote.k,
        "failed": len(found.lost),
        "tie": found.vote.tie,
        "candidates": [{"sql": one.sql, "fate": fate(one)} for one in found.valid],
        "policy": policy.name,
        "policy_revision": policy.revision,
        "stop_reasons": [one.stop_reason for one in found.rollouts],
        "prompt_tokens": sum(one.prompt_tokens for one in found.rollouts),
        "completion_tokens": sum(one.completion_tokens for one in found.rollouts),
        "opening_seconds": round(opening, 3),
        "seconds": round(max(one.seconds for one in found.rollouts), 3),
    }
    return json.dumps(values, allow_nan=False)


def print_csv(result: QueryResult) -> None:
    """Print rows below a header; NULL is empty, a blob is hexadecimal digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([csv_value(value) for value in row] for row in result.rows)
    # color keeps the escape sequences of cells, which click would drop.
    click.echo(text.getvalue(), nl=False, color=True)
    more = "" if result.complete else "more than "
    if more or len(result.rows) < result.row_count:
        shown = f"the first {len(result.rows)} of {more}{result.row_count} rows"
        click.echo(f"note: {shown}.", err=True)
