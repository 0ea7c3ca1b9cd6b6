"""The report of a day as one HTML page that needs nothing else, not even a network.

Everything that comes from questions, databases or models is escaped: it is data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from text2sql.page_style import document
from text2sql.reporting.answers import AnswerCandidate, AnswerStatus, Change, Difference
from text2sql.reporting.answers import StoredAnswer as Stored
from text2sql.reporting.store import ReportingStore
from text2sql.reporting.values import Column

SHOWN_ROWS = 20
_CELL_CHARS = 200
_STYLE = """
.answered { background: #1a7f37 } .low_agreement, .no_consensus { background: #9a6700 }
.error { background: #cf222e }
"""
_REFUSED = {
    AnswerStatus.NO_CONSENSUS: "Not answered: no candidate query returned rows.",
    AnswerStatus.LOW_AGREEMENT: "Not answered: the candidate queries agree too little.",
    AnswerStatus.ERROR: "Not answered: something failed.",
}
_CHANGES = {
    Change.FIRST: "first answer",
    Change.SAME: "same as the answer before",
    Change.DATA_CHANGED: "the data changed since the answer before",
    Change.SQL_CHANGED: "the SQL changed since the answer before, the result did not",
    Change.BOTH: "the SQL and the result changed since the answer before",
}


@dataclass(frozen=True)
class Entry:
    """All that the page shows of one answer."""

    answer: Stored
    rows: Sequence[dict[str, Any]]
    candidates: Sequence[AnswerCandidate]
    difference: Difference | None


def entries(store: ReportingStore, answers: Sequence[Stored]) -> list[Entry]:
    """Read what the page shows of the answers."""
    return [
        Entry(a, store.rows(a), store.candidates(a), store.difference(a))
        for a in sorted(answers, key=lambda answer: answer.question_id)
    ]


def render_page(day: str, shown: Sequence[Entry]) -> str:
    """Return the page of a day."""
    published = sum(entry.answer.status == AnswerStatus.ANSWERED for entry in shown)
    sections = "\n".join(_section(entry) for entry in shown)
    title = f"Answers of {day}"
    body = (
        f"<h1>{escape(title)}</h1>"
        f'<p class="about">{published} of {len(shown)} questions answered</p>\n{sections}\n'
    )
    return document(title, body, _STYLE)


def _section(entry: Entry) -> str:
    answer = entry.answer
    answered = answer.status == AnswerStatus.ANSWERED
    body = _result(entry) if answered else _refusal(answer)
    return (
        f'<section id="{escape(answer.question_id)}"><h2>{escape(answer.question)}</h2>'
        f'<p class="about"><span class="status {answer.status}">'
        f"{answer.status.replace('_', ' ')}</span> {escape(_agreement(answer))}</p>"
        f"{body}{_candidates(entry.candidates)}{_origin(answer)}</section>"
    )


def _agreement(answer: Stored) -> str:
    if answer.share is None:
        return ""
    tie = ", a tie with another result" if answer.tie else ""
    needed = f"; at least {answer.minimum_share:.0%} needed"
    return (
        f"{answer.votes} of {answer.candidates} candidates agree ({answer.share:.0%}{tie}){needed}"
    )


def _refusal(answer: Stored) -> str:
    reason = f"<p>{escape(answer.error)}</p>" if answer.error else ""
    return f"<p>{_REFUSED[answer.status]}</p>{reason}"


def _result(entry: Entry) -> str:
    answer = entry.answer
    note = f"<p>The last attempt to ask again failed: {escape(answer.error or '')}</p>"
    return (
        _table(answer.columns, entry.rows[:SHOWN_ROWS])
        + f'<p class="about">{_row_count(entry)}; {_change(entry)}</p>'
        + (note if answer.error else "")
        + f"<details><summary>SQL</summary><pre>{escape(answer.sql or '')}</pre></details>"
    )


def _row_count(entry: Entry) -> str:
    total = entry.answer.row_count or 0
    shown = min(len(entry.rows), SHOWN_ROWS)
    rows = f"{total:,} {'row' if total == 1 else 'rows'}"
    return rows if shown == total else f"{shown} of {rows} shown"


def _change(entry: Entry) -> str:
    words = _CHANGES[entry.answer.change] if entry.answer.change else ""
    found = entry.difference
    if found is None or not (found.added or found.removed):
        return words
    return f"{words} ({len(found.added)} rows added, {len(found.removed)} removed)"


def _table(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th>{escape(column.label)}</th>" for column in columns)
    lines = "".join(
        f"<tr>{''.join(_cell(row[column.name]) for column in columns)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><em>null</em></td>"
    if isinstance(value, bytes):
        return f"<td><em>{len(value):,} bytes</em></td>"
    if isinstance(value, int | float):
        return f'<td class="number">{_number(value)}</td>'
    text = str(value)
    cut = text if len(text) <= _CELL_CHARS else f"{text[:_CELL_CHARS]}… [{len(text):,} characters]"
    return f"<td>{escape(cut)}</td>"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else format(value, ".12g")


def _candidates(candidates: Sequence[AnswerCandidate]) -> str:
    if not candidates:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("", "status", "rows", "SQL"))
    lines = "".join(
        f"<tr><td>{'✓' if c.chosen else ''}</td><td>{escape(c.status)}</td>"
        f'<td class="number">{c.row_count:,}</td>'
        f"<td><code>{escape(c.sql or c.error)}</code></td></tr>"
        for c in candidates
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    return f"<details><summary>{len(candidates)} candidates</summary>{table}</details>"


def _origin(answer: Stored) -> str:
    facts = {
        "policy": answer.policy,
        "revision": answer.policy_revision,
        "training run": answer.training_run,
        "prompt": answer.prompt_revision,
        "database": answer.database_fingerprint,
        "run": answer.dagster_run_id,
        "attempts": answer.attempts,
        "tokens": answer.prompt_tokens + answer.completion_tokens,
        "seconds": f"{answer.seconds:.1f}",
    }
    words = ", ".join(f"{name} {value}" for name, value in facts.items() if value)
    return f'<p class="about">{escape(words)}</p>'
