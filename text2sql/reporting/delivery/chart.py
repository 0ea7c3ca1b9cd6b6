"""A chart of an answer where its shape suits one: inline SVG that needs nothing else.

Two columns, one that names and one that counts, of 2 to 40 rows: bars, or a line where the
names are moments in order. Everything that comes from the answer is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from text2sql.reporting.model.values import Column

MOST_POINTS = 40
CHART_STYLE = """
svg { width: 100%; max-width: 40rem; height: auto; color: #0969da; margin: .7rem 0 }
svg text { fill: CanvasText; font: 12px system-ui, sans-serif }
svg .base { stroke: GrayText; stroke-width: 1 }
@media (prefers-color-scheme: dark) { svg { color: #58a6ff } }
"""
_WIDTH, _BAR, _NAME = 560, 24, 170
_HEIGHT = 200
_NAME_CHARS = 24
_MOMENT = re.compile(r"\d{4}(-\d\d(-\d\d([ T]\d\d:\d\d(:\d\d)?)?)?)?\Z")
_YEARS = range(1800, 2200)
_LARGEST = 1e100
"""A chart of more would need distances that floats do not hold."""

Point = tuple[str, float]


def chart(title: str, columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> str:
    """Return an SVG of a whole result, or an empty text where a chart would not help."""
    if len(columns) != 2 or not 2 <= len(rows) <= MOST_POINTS:
        return ""
    found = _roles(columns, rows)
    if found is None:
        return ""
    name, value = found
    points = [(str(row[name.name]), float(row[value.name])) for row in rows]
    moments = [row[name.name] for row in rows]
    draw = _line if len(rows) > 2 and _are_moments(moments) else _bars
    told = f"{value.label} by {name.label}: " + "; ".join(f"{n} {_short(v)}" for n, v in points)
    return draw(points, f"<title>{escape(title)}</title><desc>{escape(told)}</desc>")


def _roles(
    columns: Sequence[Column], rows: Sequence[dict[str, Any]]
) -> tuple[Column, Column] | None:
    """Return the column that names and the one that counts; None where that is not clear."""
    for name, value in (columns, columns[::-1]):
        names = [row[name.name] for row in rows]
        amounts = [row[value.name] for row in rows]
        naming = name.type == "text" or _are_moments(names)
        counting = value.type in ("integer", "real") and all(map(_can_be_drawn, amounts))
        if naming and counting and None not in names and len(set(names)) == len(names):
            return name, value
    return None


def _can_be_drawn(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= _LARGEST


def _are_moments(names: Sequence[Any]) -> bool:
    """Say whether these are years, or dates as ISO 8601 writes them, in ascending order."""
    if all(isinstance(name, int) for name in names):
        return all(name in _YEARS for name in names) and list(names) == sorted(names)
    texts = [str(name) for name in names]
    return all(map(_MOMENT.match, texts)) and texts == sorted(texts)


def _bars(points: Sequence[Point], told: str) -> str:
    low, high = _bounds(points)
    room = _WIDTH - _NAME - 70  # beside the names, and for the values
    zero = _NAME + room * (0 - low) / (high - low)
    marks = []
    for place, (name, value) in enumerate(points):
        end = _NAME + room * (value - low) / (high - low)
        y = place * _BAR
        right = max(zero, end) + 5
        marks.append(
            f'<text x="{_NAME - 8}" y="{y + 16}" text-anchor="end">{escape(_cut(name))}</text>'
            f'<rect x="{min(zero, end):.1f}" y="{y + 4}" width="{abs(end - zero):.1f}"'
            f' height="{_BAR - 8}" fill="currentColor"/>'
            f'<text x="{right:.1f}" y="{y + 16}">{_short(value)}</text>'
        )
    height = len(points) * _BAR
    base = f'<line class="base" x1="{zero:.1f}" y1="0" x2="{zero:.1f}" y2="{height}"/>'
    return _svg(height, told, "".join(marks) + base)


def _line(points: Sequence[Point], told: str) -> str:
    low, high = _bounds(points)
    left, right, top, bottom = 70, _WIDTH - 20, 20, _HEIGHT - 30
    step = (right - left) / (len(points) - 1)
    places = [
        (left + step * i, bottom - (bottom - top) * (value - low) / (high - low))
        for i, (_, value) in enumerate(points)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    zero = bottom - (bottom - top) * (0 - low) / (high - low)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="currentColor"/>' for x, y in places
    )
    labels = (
        f'<text x="{left - 8}" y="{top + 4}" text-anchor="end">{_short(high)}</text>'
        f'<text x="{left - 8}" y="{bottom + 4}" text-anchor="end">{_short(low)}</text>'
        f'<text x="{left}" y="{_HEIGHT - 8}">{escape(points[0][0])}</text>'
        f'<text x="{right}" y="{_HEIGHT - 8}" text-anchor="end">{escape(points[-1][0])}</text>'
    )
    base = f'<line class="base" x1="{left}" y1="{zero:.1f}" x2="{right}" y2="{zero:.1f}"/>'
    line = f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="2"/>'
    return _svg(_HEIGHT, told, base + line + dots + labels)


def _svg(height: int, told: str, marks: str) -> str:
    return f'<svg role="img" viewBox="0 0 {_WIDTH} {height}">{told}{marks}</svg>'


def _bounds(points: Sequence[Point]) -> tuple[float, float]:
    """Return the ends of the axis, which always shows zero: bars that do not would exaggerate."""
    values = [value for _, value in points]
    low, high = min(0.0, *values), max(0.0, *values)
    return (low, high) if high > low else (0.0, 1.0)


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"


def _short(value: float) -> str:
    """Write a number for a label: at most three digits behind the point."""
    return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else f"{value:.3g}"
