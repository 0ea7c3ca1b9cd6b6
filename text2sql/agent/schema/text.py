"""A schema as text within a budget: an overview, or one table in detail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from text2sql.agent.schema.tables import DatabaseSchema, Table
from text2sql.common.render import (
    Budget,
    Column,
    neutral,
    quote_name,
    render_cell,
    render_column,
    render_outline,
)

_EXAMPLE_CHARS, _NAME_CHARS = 40, 200
_DETAILS = ((400, 3), (150, 3), (60, 1), (60, 0), (0, 0))
"""Ever shorter forms of a column: characters of its description, number of example values."""

_SHORTENED = "shortened to fit"
_SHOWS_ALL = "inspect_schema with a table shows all of it"
_ROW_COUNTS = "tables shown, with row counts"
_SHOWS_COLUMNS = "inspect_schema with a table shows its columns"
_MORE_TABLES = "SELECT name FROM sqlite_master WHERE name LIKE '%word%' finds others"


def render_overview(schema: DatabaseSchema, budget: Budget, tools: bool = True) -> str:
    """Show every table on one line; if that does not fit, shorten the longest lines.

    They lose types first, then columns that are not keys, then all columns. If even that is too
    long, only names and row counts remain. What is left out names the tool that shows it, unless
    the reader has no ``tools``.
    """
    if not schema.tables:
        return "(the database has no tables)"
    odd = ", ".join(
        f"{table.name}.{column.name}"
        for table in schema.tables
        for column in table.columns
        if "\ufffd" in column.name
    )
    notes = [f"warning: not valid UTF-8: {neutral(odd)[:300]}"] if odd else []
    whole = "\n".join([*map(table_line, schema.tables), *notes])
    if len(whole) <= budget.chars:
        return whole
    lines = _shortened(schema.tables, budget.chars - sum(len(note) + 1 for note in notes) - 80)
    shortened = f"({_SHORTENED}; {_SHOWS_ALL})" if tools else f"({_SHORTENED})"
    text = "\n".join([*lines, shortened, *notes])
    if len(text) <= budget.chars:
        return text
    counts = ["" if table.row_count is None else f" ({table.row_count})" for table in schema.tables]
    names = [quote_name(table.name) for table in schema.tables]
    named = [neutral(name) + count for name, count in zip(names, counts, strict=True)]
    if not tools:
        return _listed(named, _ROW_COUNTS, "", budget)
    return _listed(named, f"{_ROW_COUNTS}; {_SHOWS_COLUMNS}", _MORE_TABLES, budget)


def render_detail(
    table: Table, columns: Sequence[str], rows: Sequence[Sequence[object]], budget: Budget
) -> str:
    """Show one table: its line, then each column with description and example values.

    ``rows`` are some of the table's rows, under the names ``columns``. If the columns do not fit,
    each is shortened, and keys come first.
    """
    first = table_line(table)
    is_wide = len(first) > budget.chars // 2
    head = _keys_line(table) if is_wide else first
    if len(head) > budget.chars // 2:
        head = _count_line(table)
    return _detail(table, head, table.columns, _examples(columns, rows), budget, is_wide)


def render_matching(
    table: Table,
    word: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    budget: Budget,
) -> str:
    """Show the columns with ``word`` in their name or description in detail; empty for none."""
    searched = word.lower()
    found = [
        column
        for column in table.columns
        if searched in column.name.lower() or searched in table.notes.get(column.name, "").lower()
    ]
    head = f"{_count_line(table)}; columns with {neutral(word)[:60]!r}: {len(found)}"
    return _detail(table, head, found, _examples(columns, rows), budget, True) if found else ""


def render_full(schema: DatabaseSchema, budget: Budget) -> str:
    """Show the overview and, as far as they fit, the descriptions: for single-turn prompts."""
    text = render_overview(schema, budget, tools=False)
    for table in schema.tables:
        notes = [_column_line(table, column, [], _DETAILS[0], False) for column in table.columns]
        block = "\n".join([f"{quote_name(table.name)}:", *(line for line in notes if line)])
        if table.notes and len(text) + len(block) + 1 <= budget.chars:
            text += "\n" + block
    return text


def table_line(table: Table) -> str:
    """Show a table on one line; mark views, and say why a table is broken."""
    return _line(table, ", ".join(map(render_column, table.columns)))


def _line(table: Table, body: str) -> str:
    if table.error:
        return f"{quote_name(table.name)} broken: {neutral(table.error)}"
    text = neutral(render_outline(table.name, body, table.row_count))
    if table.uncounted:
        return f"{text} rows not counted: {neutral(table.uncounted)}"
    return text + " view" if table.is_view else text


def _untyped_line(table: Table) -> str:
    return _line(table, ", ".join(map(_untyped, table.columns)))


def _keys_line(table: Table) -> str:
    keys = [_untyped(column) for column in table.columns if _is_key(column)]
    more = len(table.columns) - len(keys)
    if not keys or not more:
        return _untyped_line(table) if keys else _count_line(table)
    return _line(table, f"{', '.join(keys)}, {more} more column{'' if more == 1 else 's'}")


def _count_line(table: Table) -> str:
    count = len(table.columns)
    return _line(table, f"{count} column{'' if count == 1 else 's'}")


def _untyped(column: Column) -> str:
    return render_column(replace(column, type=""))


def _is_key(column: Column) -> bool:
    return column.primary_key or bool(column.references)


_FORMS: tuple[Callable[[Table], str], ...] = (table_line, _untyped_line, _keys_line, _count_line)


def _shortened(tables: Sequence[Table], room: int) -> list[str]:
    """Shorten the longest line again and again until all fit, or none can be shortened."""
    lines = [table_line(table) for table in tables]
    used = sum(len(line) + 1 for line in lines)
    longest = [(-len(line), 0, index) for index, line in enumerate(lines)]
    heapify(longest)
    while used > room and longest:
        _, form, index = heappop(longest)
        if form + 1 == len(_FORMS):
            continue
        line = min(lines[index], _FORMS[form + 1](tables[index]), key=len)
        used += len(line) - len(lines[index])
        lines[index] = line
        heappush(longest, (-len(line), form + 1, index))
    return lines


def _listed(names: Sequence[str], note: str, more: str, budget: Budget) -> str:
    """Show as many names as fit, how many there are, and how to find the others."""
    room = budget.chars - len(note) - len(more) - 40
    kept: list[str] = []
    for name in (_cut(name, _NAME_CHARS) for name in names):
        room -= len(name) + 2
        if room < 0:
            break
        kept.append(name)
    count = f"{len(kept)} of {len(names)}" if len(kept) < len(names) else f"all {len(names)}"
    parts = [f"{count} {note}", *([more] if more and len(kept) < len(names) else [])]
    return f"{', '.join(kept)}\n({'; '.join(parts)})"


def _examples(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, list[str]]:
    """Return the different values of each column as text, without NULL."""
    found: dict[str, list[str]] = {}
    for i, name in enumerate(columns):
        values = (render_cell(row[i], _EXAMPLE_CHARS) for row in rows if row[i] is not None)
        found[name] = list(dict.fromkeys(values))
    return found


def _detail(
    table: Table,
    head: str,
    columns: Sequence[Column],
    examples: dict[str, list[str]],
    budget: Budget,
    with_type: bool,
) -> str:
    """Show columns line by line in the longest form that fits; else names, keys first."""
    part = f"{neutral(quote_name(table.name))}.word"
    hint = f"inspect_schema with {part} shows those with that word in name or description"
    for detail in _DETAILS:
        lines = [
            _column_line(table, column, examples.get(column.name, []), detail, with_type)
            for column in columns
        ]
        note = [] if detail == _DETAILS[0] else [f"(shortened to fit; {hint})"]
        text = "\n".join([head, *(line for line in lines if line), *note])
        if len(text) <= budget.chars:
            return text
    ordered = sorted(columns, key=_is_key, reverse=True)
    names = [render_column(column) for column in ordered]
    room = replace(budget, chars=budget.chars - len(head) - 1)
    return f"{head}\n{_listed(names, 'columns shown', hint, room)}"


def _column_line(
    table: Table, column: Column, examples: Sequence[str], detail: tuple[int, int], with_type: bool
) -> str:
    chars, count = detail
    note = neutral(table.notes.get(column.name, ""))
    parts = [_cut(note, chars)] if note and chars else []
    parts += ["e.g. " + ", ".join(examples[:count])] if examples and count else []
    name = render_column(column) if with_type else neutral(quote_name(column.name))
    if not parts:
        return f"  {name}" if with_type else ""
    return f"  {name}: {'; '.join(parts)}"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars].rstrip()}..."
