"""Cells of a query's result as CSV and JSON hold them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def csv_value(value: Any) -> Any:
    """Return what ``csv`` writes of a cell: a blob as hexadecimal digits, infinity as a word."""
    return value.hex() if isinstance(value, bytes) else finite(value)


def json_value(value: Any) -> Any:
    """Return a cell for JSON: a blob as ``{"blob": "00ff"}``, infinity as a word."""
    return {"blob": value.hex()} if isinstance(value, bytes) else finite(value)


def json_rows(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return rows for JSON."""
    return [[json_value(value) for value in row] for row in rows]


def finite(value: Any) -> Any:
    """Return a value, or the name of a float that JSON cannot hold: ``Infinity``, ``NaN``."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
