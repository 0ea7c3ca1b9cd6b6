"""The report of a day as one HTML page that needs nothing else, not even a network.

Everything that comes from questions, databases or models is escaped: it is data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.html import document
from text2sql.reporting.delivery.chart import CHART_STYLE, chart
from text2sql.reporting.delivery.entries import Entry, by_trust, summary
from text2sql.reporting.model.answer import AnswerCandidate, Verified
from text2sql.reporting.model.answer import StoredAnswer as Stored
from text2sql.reporting.model.diff import Difference
from text2sql.reporting.model.values import Column

SHOWN_ROWS = 20
_CELL_CHARS = 200
_STYLE = f"""
.answered {{ background: #1a7f37 }} .low_agreement, .no_consensus {{ background: #9a6700 }}
.error, .refuted {{ background: #cf222e }}
.concern {{ border-left: 4px solid #bf8700; padding-left: .6rem; margin: .5rem 0 }}
.overview {{ list-style: none; padding: 0 }} .overview li {{ margin: .3rem 0 }}
.status, .number {{ white-space: nowrap }} th.number {{ text-align: right }}
section, li, td {{ overflow-wrap: anywhere }} th {{ overflow-wrap: normal }}
td {{ min-width: 5rem }} td.number, .votes td {{ min-width: 0 }}
details {{ margin: .4rem 0 }} summary {{ cursor: pointer }}
{CHART_STYLE.strip()}
"""


def render_page(
    day: str, shown: Iterable[Entry], unreadable: Mapping[str, str] | None = None
) -> str:
    """Return the page of a day: first what not to trust, then each answer.

    ``unreadable`` are questions that could not be asked: their ids and what is wrong with them.
    """
    shown = list(shown)
    title = f"Answers of {day}"
    sections = "\n".join(_section(entry) for entry in shown)
    unasked = "".join(
        f'<p class="concern">Not asked, {escape(name)}: {escape(problem)}</p>'
        for name, problem in (unreadable or {}).items()
    )
    body = (
        f"<h1>{escape(title)}</h1>"
        f'<p class="about">{escape(summary(shown))}</p>\n{unasked}{_overview(shown)}\n{sections}\n'
    )
    return document(title, body, _STYLE)


def _overview(shown: Sequence[Entry]) -> str:
    """List every question with its status, those not answered first, then the doubtful ones."""
    return f'<ul class="overview">{"".join(map(_overview_line, by_trust(shown)))}</ul>'


def _overview_line(entry: Entry) -> str:
    answer = entry.answer
    share = "" if answer.share is None else f" {answer.share:.0%} agree."
    known = entry.verified if answer.verified == Verified.MATCH else ""
    notes = [entry.refusal] if entry.refusal else [*entry.concerns, known, entry.change]
    words = " ".join(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes if note)
    name = f'<a href="#{escape(answer.question_id)}">{escape(answer.question_id)}</a>'
    return f"<li>{name} {_status(answer)}{share} {escape(_cut(words))}</li>"


def _section(entry: Entry) -> str:
    answer = entry.answer
    facts = "; ".join(filter(None, (answer.question_id, entry.agreement, entry.verified)))
    body = _result(entry) if entry.published else f"<p>{escape(entry.refusal)}</p>"
    concerns = "".join(f'<p class="concern">{escape(words)}</p>' for words in entry.concerns)
    return (
        f'<section id="{escape(answer.question_id)}"><h2>{escape(answer.question)}</h2>'
        f'<p class="about">{_status(answer)} {escape(facts)}</p>'
        f"{concerns}{body}{_candidates(entry.candidates)}{_origin(answer)}</section>"
    )


def _status(answer: Stored) -> str:
    return f'<span class="status {answer.status}">{answer.status.replace("_", " ")}</span>'


def _result(entry: Entry) -> str:
    answer = entry.answer
    whole = answer.row_count == len(entry.rows)
    drawing = chart(answer.question, answer.columns, entry.rows) if whole else ""
    return (
        drawing
        + _table(answer.columns, entry.rows[:SHOWN_ROWS])
        + f'<p class="about">{_row_count(entry)}; {escape(entry.change)}</p>'
        + _changes(answer.columns, entry.difference)
        + f"<details><summary>SQL</summary><pre>{escape(answer.sql or '')}</pre></details>"
    )


def _row_count(entry: Entry) -> str:
    total = entry.answer.row_count or 0
    shown = min(len(entry.rows), SHOWN_ROWS)
    rows = counted(total, "row")
    return rows if shown == total else f"{shown} of {rows} shown"


def _changes(columns: Sequence[Column], found: Difference | None) -> str:
    """Show which rows came, went and changed, folded; a changed row as it was and as it is."""
    if found is None or not any(found.rows.counts):
        return ""
    rows = found.rows.first(SHOWN_ROWS)
    marked = [("+", row) for row in rows.added] + [("-", row) for row in rows.removed]
    for old, new in rows.changed:
        marked += [("was", old), ("is", new)]
    names = [column.name for column in columns]
    names += [
        name for name in dict.fromkeys(n for _, row in marked for n in row) if name not in names
    ]
    labels = {column.name: column.label for column in columns}
    head = "".join(f"<th>{escape(labels.get(name, name))}</th>" for name in names)
    lines = "".join(
        f"<tr><td>{mark}</td>{''.join(_cell(row.get(name), True) for name in names)}</tr>"
        for mark, row in marked
    )
    title = f"{found.rows} since {found.previous_at:%Y-%m-%d}"
    return (
        f"<details><summary>{escape(title)}</summary><table><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{lines}</tbody></table></details>"
    )


def _table(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> str:
    head = "".join(map(_heading, columns))
    lines = "".join(
        f"<tr>{''.join(_cell(row[column.name]) for column in columns)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _heading(column: Column) -> str:
    kind = ' class="number"' if column.type in ("integer", "real") else ""
    return f"<th{kind}>{escape(column.label)}</th>"


def _cell(value: Any, exact: bool = False) -> str:
    """Show a value; where ``exact``, with all digits: what changed may be the last one."""
    if value is None:
        return "<td><em>null</em></td>"
    if isinstance(value, bytes):
        return f"<td><em>{counted(len(value), 'byte')}</em></td>"
    if isinstance(value, int | float):
        return f'<td class="number">{str(value) if exact else _number(value)}</td>'
    return f"<td>{escape(_cut(str(value)))}</td>"


def _cut(text: str) -> str:
    if len(text) <= _CELL_CHARS:
        return text
    return f"{text[:_CELL_CHARS]}… [{len(text):,} characters]"


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
    table = f'<table class="votes"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'
    return f"<details><summary>{counted(len(candidates), 'candidate')}</summary>{table}</details>"


def _origin(answer: Stored) -> str:
    facts = {
        "answer": answer.id,
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
