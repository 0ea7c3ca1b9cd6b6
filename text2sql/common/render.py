"""Query results and tables as text: compact for the agent, aligned for people."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# SQLite's keywords that do not work as a bare name (found by trying each of them).
_KEYWORD_TEXT = (
    "add all alter and as autoincrement between case cast check collate commit constraint create "
    "current_date current_time current_timestamp default deferrable delete distinct drop else "
    "escape except exists foreign from group having in index insert intersect into is isnull join "
    "limit not nothing notnull null on or order primary raise references returning select set "
    "table then to transaction union unique update using values when where"
)
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())
# Markers that chat templates and tool parsers interpret: those of Qwen, Llama, Gemma, Mistral,
# DeepSeek, GLM, MiniMax, Cohere and Nemotron. No cell and no question may contain one.
_CONTROL = re.compile(
    r"""<(?=[|\uff5c] | /?(?:tool_|function|parameter|think|arg_(?:key|value)|minimax:) | <?/?SYS>
        | /?s> | (?:bos|eos|pad|unk|mask|sop|eop)> | (?:start|end)_of_(?:turn|image|audio)>
        | (?:image|audio)_soft_token> | unused\d | (?:BOS|EOS|PAD|UNK|EOP)_TOKEN> | extra_id_\d
        | SPECIAL_\d )
      | \[(?=/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT
        |MODEL_SETTINGS|THINK|ARGS|CALL_ID|PREFIX|MIDDLE|SUFFIX|IMG|IMG_BREAK|IMG_END|AUDIO
        |BEGIN_AUDIO|gMASK|sMASK|MASK)\])
      | \](?=~!?b\[)""",
    re.VERBOSE,
)
_INERT = {"<": "\u2039", "[": "\uff3b", "]": "\uff3d"}
_LONGEST_MARKER = 24
_LINE_BREAKS = {"\r": "\\r", "\n": "\\n", "\x00": "\\0"}
# Shown as escapes: control characters, which could steer a terminal; marks that change the
# direction of text; and lone surrogates, which no encoder accepts. A tab may stay.
_ESCAPES = str.maketrans(
    {chr(code): f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}
    | {chr(code): f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))}
    | {chr(code): f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
    | _LINE_BREAKS
)
_COUNT_LINE = 80


@dataclass(frozen=True)
class Budget:
    """How much one tool result may show: characters in all, rows, characters a cell."""

    chars: int = 8000
    rows: int = 50
    cell: int = 200


def render_cell(value: Any, limit: int) -> str:
    """Show one value on one line: NULL, numbers in full, long text cut with its length."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<blob {len(value)} bytes>"
    if isinstance(value, float):
        return repr(value) if value.is_integer() else format(value, ".15g")
    whole = str(value)
    text = neutral(whole[: limit + _LONGEST_MARKER])
    if len(whole) <= limit and len(text) <= limit:
        return text
    return f"{text[:limit]}... [{len(whole):,} chars]"


def for_terminal(text: str) -> str:
    """Return text in which nothing steers a terminal; its lines stay lines."""
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else line.translate(_ESCAPES) for line in lines)


def neutral(text: str) -> str:
    """Return data as inert one-line text: no line breaks, no chat or tool-call markers."""
    return inert(text if text.isprintable() else text.translate(_ESCAPES))


def inert(text: str) -> str:
    """Return text, with its lines, in which no marker is one that a model obeys."""
    return _CONTROL.sub(lambda found: _INERT[found[0]], text)


def folded(name: str) -> str:
    """Return a name as SQLite compares names: only A to Z are folded, so É and é are two."""
    return name.translate(_LOWER)


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def quote_name(name: str) -> str:
    """Quote an SQL identifier where it needs quotes."""
    return name if _BARE.match(name) and name.lower() not in _KEYWORDS else quoted(name)


def quoted(name: str) -> str:
    """Quote an SQL identifier, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def render_rows(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    total: int,
    budget: Budget,
    complete: bool = True,
) -> str:
    """Show a result: a header, rows while the budget lasts (at least one), and the count.

    ``total`` is the number of rows that the query returned; ``rows`` may be only the first of them.
    With ``complete`` False the query was stopped after ``total`` rows.
    """
    lines = [_line([neutral(name) for name in columns], budget)]
    used = len(lines[0])
    for row in rows[: budget.rows]:
        line = _line([render_cell(value, budget.cell) for value in row], budget)
        if len(lines) > 1 and used + len(line) > budget.chars - _COUNT_LINE:
            break
        lines.append(line)
        used += len(line) + 1
    shown = len(lines) - 1
    unit = "row" if total == 1 else "rows"
    if not complete:
        lines.append(f"({shown} of more than {total} {unit} shown)")
    elif shown == total:
        lines.append(f"({total} {unit})")
    else:
        lines.append(f"({shown} of {total} {unit} shown)")
    return "\n".join(lines)


def _line(cells: Sequence[str], budget: Budget) -> str:
    line = " | ".join(cells)
    room = budget.chars // 2 - _COUNT_LINE
    return line if len(line) <= room else f"{line[:room]}... [{len(cells):,} columns]"


def aligned(rows: Sequence[Sequence[str]], gap: str = "  ", underlined: bool = False) -> list[str]:
    """Return a line for each row, with its cells in columns; ``underlined`` sets off the first."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    rule = [["-" * width for width in widths]] if underlined else []
    padded = (
        [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        for row in (*rows[:1], *rule, *rows[1:])
    )
    return [gap.join(cells).rstrip() for cells in padded]


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a Chinese character."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


@dataclass(frozen=True)
class Column:
    """A column as the agent sees it; ``references`` is ``table.column`` of a foreign key."""

    name: str
    type: str
    primary_key: bool = False
    references: str = ""


def render_table(name: str, columns: Sequence[Column], row_count: int | None) -> str:
    """Show one table on one line: ``team(id INTEGER PK, city_id INTEGER -> city.id) 12 rows``."""
    return render_outline(name, ", ".join(map(render_column, columns)), row_count)


def render_outline(name: str, body: str, row_count: int | None) -> str:
    """Show one table on one line with this text for its columns."""
    count = "" if row_count is None else f" {row_count} row{'' if row_count == 1 else 's'}"
    return f"{quote_name(name)}({body}){count}"


def render_column(column: Column) -> str:
    """Show one column: name, type, and what key it is."""
    parts = [quote_name(column.name), column.type]
    parts += ["PK"] if column.primary_key else []
    parts += [f"-> {column.references}"] if column.references else []
    return neutral(" ".join(part for part in parts if part))
