"""Numbers that are kept as text: 100, $9.50, 12,000, 7 %. As text, 9 is more than 100."""

from __future__ import annotations

import re
from typing import Any

MARKS = ("$", "€", "£", "%", ",")
"""What people write around a number, and between its thousands."""

_NUMBER = re.compile(
    r"\s*[$€£]?\s*[+-]?[$€£]?(\d{1,3}(,\d{3})+(\.\d*)?|\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*%?\s*\Z"
)
_DROPPED = re.compile(rf"[\s{re.escape(''.join(MARKS))}]")


def number_in(value: Any) -> float | None:
    """Return the number that a text is; None for a text that is none, and for anything else."""
    if not isinstance(value, str) or not _NUMBER.match(value):
        return None
    return float(_DROPPED.sub("", value))


def without_marks(value: str) -> str:
    """Return the SQL of an expression's text without what stands around its number."""
    for mark in MARKS:
        value = f"REPLACE({value}, '{mark}', '')"
    return value
