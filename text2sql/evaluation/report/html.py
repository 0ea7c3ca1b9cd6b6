"""Small pieces of HTML; every text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any
from urllib.parse import quote


def text(value: Any) -> str:
    """Escape a value for HTML."""
    return escape(str(value))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: int = 0) -> str:
    """Return a table of texts; from the column ``numbers`` on they are set as numbers, 0: none.

    A cell that is a ``Raw`` is HTML already.
    """
    heads = "".join(f"<th{_kind(i, numbers)}>{escape(name)}</th>" for i, name in enumerate(head))
    lines = "".join(
        f"<tr>{''.join(f'<td{_kind(i, numbers)}>{_cell(v)}</td>' for i, v in enumerate(row))}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


class Raw(str):
    """Text that is HTML already."""


def link(key: str) -> Raw:
    """Return a link to a question's row on the same page."""
    return Raw(f'<a href="#{anchor(key)}">{escape(key)}</a>')


def anchor(key: str) -> str:
    """Return the name of a question's row."""
    return "q-" + escape(quote(key, safe=""))


def folded(title: str, body: str) -> str:
    """Return what opens on a click."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def _kind(column: int, numbers: int) -> str:
    return ' class="number"' if numbers and column >= numbers else ""


def _cell(value: Any) -> str:
    return value if isinstance(value, Raw) else escape(str(value))
