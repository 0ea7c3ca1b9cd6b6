"""A schema as text within a budget: an overview first, one table in detail on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from text2sql.render import Budget, Column, neutral, quote_name, render_cell, render_table
from text2sql.schema import DatabaseSchema, Table

_EXAMPLES = 3
_EXAMPLE_CHARS = 40
_NOTE_CHARS = 400


def render_overview(schema: DatabaseSchema, budget: Budget) -> str:
    """Show every table on one line, in less detail where that does not fit the budget."""
    if not schema.tables:
        return "(the database has no tables)"
    lines: list[str] = []
    for show, note in _LEVELS:
        lines = [show(table) for table in schema.tables]
        text = "\n".join([*lines, *note, *_warnings(schema)])
        if len(text) <= budget.chars:
            return text
    return _cut(lines, len(lines), "tables shown; SELECT name FROM sqlite_master lists all", budget)


def render_detail(
    table: Table, columns: Sequence[str], rows: Sequence[Sequence[object]], budget: Budget
) -> str:
    """Show one table: its line, then a line a column with description and example values.

    ``rows`` are some of the table's rows, under the names ``columns``.
    """
    examples = {name: [row[i] for row in rows] for i, name in enumerate(columns)}
    first = table_line(table)
    is_wide = len(first) > budget.chars // 2
    lines = [
        _column_line(table, column, examples.get(column.name, []), with_type=is_wide)
        for column in table.columns
    ]
    lines = [_count_line(table) if is_wide else first, *(line for line in lines if line)]
    text = "\n".join(lines)
    if len(text) <= budget.chars:
        return text
    if not is_wide:
        return _cut(lines, len(lines) - 1, "column notes shown", budget)
    name = neutral(table.name.replace("'", "''"))
    note = f"columns shown; SELECT name FROM pragma_table_info('{name}') lists all"
    return _cut(lines, len(table.columns), note, budget)


def render_full(schema: DatabaseSchema, budget: Budget) -> str:
    """Show the overview and, while the budget lasts, the descriptions: for one-turn prompts."""
    text = render_overview(schema, budget)
    for table in schema.tables:
        notes = [_column_line(table, column, [], with_type=False) for column in table.columns]
        block = "\n".join([f"{quote_name(table.name)}:", *(line for line in notes if line)])
        if table.notes and len(text) + len(block) + 1 <= budget.chars:
            text += "\n" + block
    return text


def table_line(table: Table) -> str:
    """Show a table on one line; a view says so, a broken one says why."""
    if table.error:
        return f"{quote_name(table.name)} broken: {neutral(table.error)}"
    text = neutral(render_table(table.name, table.columns, table.row_count))
    return text + " view" if table.is_view else text


def _names_line(table: Table) -> str:
    return table_line(replace(table, columns=tuple(Column(c.name, "") for c in table.columns)))


def _count_line(table: Table) -> str:
    rows = "" if table.row_count is None else f" {table.row_count} rows"
    return f"{neutral(quote_name(table.name))}({len(table.columns)} columns){rows}"


_LEVELS: tuple[tuple[Callable[[Table], str], tuple[str, ...]], ...] = (
    (table_line, ()),
    (_names_line, ("(types and keys left out; inspect_schema with a table shows them)",)),
    (_count_line, ("(columns left out; inspect_schema with a table shows them)",)),
)


def _warnings(schema: DatabaseSchema) -> list[str]:
    names = ", ".join(schema.odd_names)
    return [f"warning: not valid UTF-8: {neutral(names)[:300]}"] if names else []


def _cut(lines: Sequence[str], total: int, note: str, budget: Budget) -> str:
    room = budget.chars - len(note) - 40
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    shown = len(kept) - max(0, len(lines) - total)
    return "\n".join([*kept, f"({shown} of {total} {note})"])


def _column_line(table: Table, column: Column, values: Sequence[object], with_type: bool) -> str:
    shown = dict.fromkeys(render_cell(v, _EXAMPLE_CHARS) for v in values if v is not None)
    note = neutral(table.notes.get(column.name, ""))[:_NOTE_CHARS]
    parts = [neutral(column.type)] if with_type and column.type else []
    parts += [note] if note else []
    parts += ["e.g. " + ", ".join(list(shown)[:_EXAMPLES])] if shown else []
    name = neutral(quote_name(column.name))
    if not parts:
        return f"  {name}" if with_type else ""
    return f"  {name}: {'; '.join(parts)}"
