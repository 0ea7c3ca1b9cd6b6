"""Sort keys that are numbers in text, and texts that stand before numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from text2sql.datasets.gold.text_numbers import number_in

Row = tuple[Any, ...]


def numeric_text(rows: Sequence[Row]) -> int | None:
    """Return the first column whose values are numbers in text; NULL and blanks do not count."""
    for at in range(len(rows[0]) if rows else 0):
        values = [row[at] for row in rows if row[at] is not None and not _is_blank(row[at])]
        if values and all(number_in(value) is not None for value in values):
            return at
    return None


def text_before_number(keys: Sequence[Any], skip: int, take: int) -> str:
    """Say which text comes before a number and is let through by a LIMIT; nothing for none.

    ``keys`` are sorted. A text is more than any number to SQLite; so is ``n/a`` beside numbers
    that are texts themselves, where it is the only word among several of them.
    """
    read = [number_in(key) for key in keys]
    words = {
        key
        for key, number in zip(keys, read, strict=True)
        if isinstance(key, str) and number is None
    }
    if len(words) == 1 and len(set(read) - {None}) > 1:
        keys = [key if number is None else number for key, number in zip(keys, read, strict=True)]
    texts = [at for at, key in enumerate(keys[: skip + take]) if isinstance(key, str)]
    counted = [at for at, key in enumerate(keys) if isinstance(key, int | float)]
    if not (texts and counted) or texts[0] > counted[-1] or texts[-1] < skip:
        return ""
    return f"{keys[texts[0]][:40]!r}, a text, comes before {keys[counted[-1]]:g}, a number"


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()
