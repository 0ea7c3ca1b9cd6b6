"""The report of a day as one HTML page that needs nothing else, not even a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from text2sql.common.charts import short_number
from text2sql.common.counting import counted
from text2sql.common.html import render
from text2sql.reporting.delivery.chart import chart
from text2sql.reporting.delivery.entries import Entry, by_trust, summary
from text2sql.reporting.model.answer import Verified

SHOWN_ROWS = 20
_CELL_CHARS = 200
_SHORT = 10_000
_WORD = re.compile(r"[a-z]+|%\W*\Z")  # elsewhere % is an operator
_IDENTIFYING = frozenset(("id", "key", "code", "zip", "phone", "year", "ean", "sku"))
_PERCENT = frozenset(("percent", "percentage", "pct"))


def render_page(
    day: str, entries: Iterable[Entry], unreadable: Mapping[str, str] | None = None
) -> str:
    """Return the page of a day: first what not to trust, then each answer.

    ``unreadable`` has the problem of each question that could not be asked.
    """
    shown = list(entries)
    return render(
        "text2sql.reporting.delivery",
        "day.html",
        day=day,
        summary=summary(shown),
        unreadable=unreadable or {},
        overview=[(entry.answer, _overview(entry)) for entry in by_trust(shown)],
        sections=[_section(entry) for entry in shown],
    )


def _overview(entry: Entry) -> str:
    answer = entry.answer
    share = f"{entry.share}." if entry.share else ""
    known = entry.verified if answer.verified == Verified.MATCH else ""
    notes = [entry.refusal] if entry.refusal else [*entry.concerns, known, entry.change]
    words = " ".join(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes if note)
    return f"{share} {_cut(words)}".strip()


def _section(entry: Entry) -> dict[str, Any]:
    answer = entry.answer
    total, shown = answer.row_count or 0, min(len(entry.rows), SHOWN_ROWS)
    rows = counted(total, "row")
    whole = total == len(entry.rows)  # a chart of a part would mislead
    facts = (answer.question_id, entry.agreement, entry.verified)
    origin = {
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
    return {
        "entry": entry,
        "facts": "; ".join(filter(None, facts)),
        "chart": chart(answer.question, answer.columns, entry.rows) if whole else "",
        "rows": [
            [_cell(row[column.name], column.label) for column in answer.columns]
            for row in entry.rows[:SHOWN_ROWS]
        ],
        "row_count": rows if shown == total else f"{shown} of {rows} shown",
        "changes": _changes(entry),
        "candidates": counted(len(entry.queries), "candidate"),
        "origin": ", ".join(f"{name} {value}" for name, value in origin.items() if value),
    }


def _changes(entry: Entry) -> dict[str, Any] | None:
    """Return which rows were added, removed and changed; a changed row as it was and as it is."""
    found = entry.difference
    if found is None or not any(found.rows.counts):
        return None
    rows = found.rows.first(SHOWN_ROWS)
    marked = [("+", row) for row in rows.added] + [("-", row) for row in rows.removed]
    for old, new in rows.changed:
        marked += [("was", old), ("is", new)]
    labels = {column.name: column.label for column in entry.answer.columns}
    # The answer before may have had other columns.
    names = list(dict.fromkeys([*labels, *(name for _, row in marked for name in row)]))
    return {
        "title": f"{found.rows} since {found.previous_at:%Y-%m-%d}",
        "labels": [labels.get(name, name) for name in names],
        "rows": [(mark, [_cell(row.get(name)) for name in names])
                 for mark, row in marked],
    }  # fmt: skip


def _cell(value: Any, label: str | None = None) -> tuple[str, str]:
    """Return a value's kind for the template and its text.

    Numbers are written for people, by their column's label; without it they keep all digits,
    because the last one may have changed.
    """
    if value is None:
        return "null", "null"
    if isinstance(value, bytes):
        return "blob", counted(len(value), "byte")
    if isinstance(value, int | float):
        return "number", str(value) if label is None else _number(value, label)
    return "text", _cut(str(value))


def _number(value: float, label: str) -> str:
    """Return a number with thousands apart and few decimals; exports have all digits.

    Ids and codes, by their label, and integers below 10,000, such as years, stay as they are.
    """
    words = set(_WORD.findall(label.lower()))
    plain = isinstance(value, int) and (abs(value) < _SHORT or words & _IDENTIFYING)
    text = str(value) if plain else short_number(value)
    return f"{text} %" if words & _PERCENT or any("%" in word for word in words) else text


def _cut(text: str) -> str:
    if len(text) <= _CELL_CHARS:
        return text
    return f"{text[:_CELL_CHARS]}… [{len(text):,} characters]"
