"""Cells of a query's result as CSV and JSON hold them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def csv_value(value: Any) -> Any:
    """Return what ``csv`` writes of a cell: a blob as hexadecimal digits, infinity as a word."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def plain_value(value: Any) -> Any:
    """Return a value for JSON: a blob as ``{"blob": "00ff"}``, an infinity by its name as text."""
    if isinstance(value, bytes):
        return {"blob": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def plain_rows(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return rows for JSON; SQLite has no NaN, it returns NULL instead."""
    return [[plain_value(value) for value in row] for row in rows]
