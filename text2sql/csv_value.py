"""A cell of a query's result as a CSV file holds it."""

from __future__ import annotations

import math
from typing import Any


def csv_value(value: Any) -> Any:
    """Return what ``csv`` writes of a cell: a blob as hexadecimal digits, infinity as a word."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
