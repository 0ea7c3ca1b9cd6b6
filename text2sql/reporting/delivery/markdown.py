"""The report of a day as Markdown for a chat: short, and nothing in it can be clicked."""

from __future__ import annotations

import re
from collections.abc import Iterable

from text2sql.common.counting import counted
from text2sql.common.render import aligned, neutral, render_cell
from text2sql.reporting.delivery.entries import Entry, by_trust, summary
from text2sql.reporting.model.answer import Change

SHOWN_ROWS = 5
_MOST_CHARS = 12_000  # chats refuse long messages: Mattermost's limit is 16,383
_CELL_CHARS = 60
_TEXT_CHARS = 300
_MOST_COLUMNS = 8
_TICKS = re.compile(r"`+")
# Words, numbers and the punctuation of a sentence; no dot that could be part of a host name.
_PLAIN = re.compile(r"(?:[^\W_]|[ ,;?%()'\u2019-]|[.:!](?= |\Z)|(?<=\d)[.](?=\d))*\Z")


def render_markdown(day: str, entries: Iterable[Entry], *, rows: bool = True) -> str:
    """Return the report of a day in at most 12,000 characters, the least trusted answers first.

    Without ``rows`` it describes results but shows none.
    """
    ordered = by_trust(entries)
    text = f"**Answers of {day}**: {summary(ordered)}"
    for place, entry in enumerate(ordered):
        part = "\n".join(_entry(entry, rows))
        if len(text) + len(part) > _MOST_CHARS:
            left = counted(len(ordered) - place, "more question is", "more questions are")
            return f"{text}\n\n{left} on the page.\n"
        text = f"{text}\n\n{part}"
    return f"{text}\n"


def _entry(entry: Entry, rows: bool) -> list[str]:
    answer = entry.answer
    share = f" ({entry.share})" if entry.share else ""
    status = answer.status.replace("_", " ")
    verified = f", {entry.verified}" if entry.verified else ""
    lines = [f"**{inert_words(answer.question)}**", f"{status}{share}{verified}"]
    if entry.refusal:
        return [*lines, inert_words(entry.refusal)]
    lines += [f"Careful: {inert_words(concern)}" for concern in entry.concerns]
    if answer.change not in (Change.SAME, None):
        lines.append(inert_words(entry.change))
    return [*lines, *_table(entry)] if rows else lines


def _table(entry: Entry) -> list[str]:
    # Code: there chats neither format text nor turn an address into a link.
    columns = entry.answer.columns[:_MOST_COLUMNS]
    shown = [[column.label for column in columns]]
    shown += [[row[column.name] for column in columns] for row in entry.rows[:SHOWN_ROWS]]
    cells = [[render_cell(value, _CELL_CHARS) for value in line] for line in shown]
    text = aligned(cells, " | ")
    total = entry.answer.row_count or 0
    if total > SHOWN_ROWS or len(entry.answer.columns) > _MOST_COLUMNS:
        wide = counted(len(entry.answer.columns), "column")
        text.append(f"({counted(total, 'row')}, {wide}; see the page for all)")
    fence = "`" * max(3, _longest_run("\n".join(text)) + 1)
    return [fence, *text, fence]


def inert_words(text: str) -> str:
    """Return a sentence as it is if that is safe, otherwise as code.

    Line breaks and what chats read as markup, mentions, tags or addresses never stay text.
    """
    flat = neutral(text.strip())
    flat = flat if len(flat) <= _TEXT_CHARS else f"{flat[:_TEXT_CHARS]}…"
    if _PLAIN.match(flat) and not flat.startswith("-"):
        return flat
    fence = "`" * (_longest_run(flat) + 1)
    pad = " " if "`" in (flat[:1], flat[-1:]) else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
