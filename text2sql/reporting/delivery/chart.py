"""A chart of an answer with a column of names and one of numbers, of 2 to 40 rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from text2sql.common.charts import Bars, Line, bars, lines, short_number
from text2sql.reporting.model.values import Column

MOST_POINTS = 40
_NAME_CHARS = 24
_MOMENT = re.compile(r"\d{4}(-\d\d(-\d\d([ T]\d\d:\d\d(:\d\d)?)?)?)?\Z")
_YEARS = range(1800, 2200)
_LARGEST = 1e100
"""A chart of more would need distances that floats do not hold."""


def chart(title: str, columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> str:
    """Return an SVG of a whole result, empty where a chart would not help.

    It has bars, or a line where the names are years or dates in order.
    """
    found = _roles(columns, rows) if len(columns) == 2 <= len(rows) <= MOST_POINTS else None
    if found is None:
        return ""
    name, value = found
    names = [row[name.name] for row in rows]
    values = [float(row[value.name]) for row in rows]
    texts = [short_number(one) for one in values]
    if len(rows) > 2 and _are_moments(names):
        # The axis always shows zero: a line that does not would exaggerate.
        low, high = min(0.0, *values), max(0.0, *values)
        ticks = {y: short_number(y) for y in ((low, high) if high > low else (0.0, 1.0))}
        x = range(len(names))
        ends = {0.0: str(names[0]), float(x[-1]): str(names[-1])}
        drawn = lines(x, [Line(values)], ends, ticks, dots=True)
    else:
        labels = [
            text if len(text) <= _NAME_CHARS else f"{text[: _NAME_CHARS - 1]}…"
            for text in map(str, names)
        ]
        drawn = bars(labels, [Bars(values, texts)])
    described = "; ".join(f"{one} {text}" for one, text in zip(names, texts, strict=True))
    return drawn.svg(title, f"{value.label} by {name.label}: {described}")


def _roles(
    columns: Sequence[Column], rows: Sequence[dict[str, Any]]
) -> tuple[Column, Column] | None:
    """Return the column that names and the one that counts; None where that is not clear."""
    for name, value in (columns, columns[::-1]):
        names = [row[name.name] for row in rows]
        amounts = [row[value.name] for row in rows]
        naming = name.type == "text" or _are_moments(names)
        counting = value.type in ("integer", "real") and all(
            isinstance(amount, int | float) and abs(amount) <= _LARGEST for amount in amounts
        )
        if naming and counting and None not in names and len(set(names)) == len(names):
            return name, value
    return None


def _are_moments(names: Sequence[Any]) -> bool:
    """Whether these are years, or dates in ISO 8601, in ascending order."""
    if all(isinstance(name, int) for name in names):
        return all(name in _YEARS for name in names) and list(names) == sorted(names)
    texts = [str(name) for name in names]
    return all(map(_MOMENT.match, texts)) and texts == sorted(texts)
