"""The report's charts: inline SVG that needs nothing else, light and dark.

The two policies differ in colour (blue and orange of M. Okabe and K. Ito's palette, which
colour-blind people tell apart) and in shape or dash as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from text2sql.evaluation.vote_curve import Curve

CHART_STYLE = """
:root { --first: #b45f06; --second: #0072b2 }
@media (prefers-color-scheme: dark) { :root { --first: #e69f00; --second: #56b4e9 } }
svg { width: 100%; max-width: 44rem; height: auto; margin: .5rem 0; display: block }
svg text { fill: CanvasText; font: 12px system-ui, sans-serif }
svg .grid { stroke: GrayText; stroke-width: 1; opacity: .35 }
svg .first { stroke: var(--first); fill: var(--first) }
svg .second { stroke: var(--second); fill: var(--second) }
svg polyline { fill: none !important; stroke-width: 2 }
svg .dashed { stroke-dasharray: 5 4 }
svg .band { opacity: .18; stroke: none }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .3rem }
.key.first { background: var(--first); border-radius: 0 }
.key.second { background: var(--second); border-radius: 50% }
"""
_WIDTH = 640
Interval = tuple[float, float, float]
"""Value, low and high, as shares."""


def interval_chart(title: str, rows: Sequence[tuple[str, Interval | None, Interval | None]]) -> str:
    """Draw shares with their intervals: a row for each label, the first policy above the second."""
    left, right, height = 150, _WIDTH - 60, len(rows) * 46 + 30
    marks = [_scale(left, right, height - 24)]
    for place, (label, first, second) in enumerate(rows):
        y = place * 46 + 22
        marks.append(f'<text x="{left - 10}" y="{y + 5}" text-anchor="end">{escape(label)}</text>')
        for found, name, shift in ((first, "first", -9), (second, "second", 9)):
            if found:
                marks.append(_interval(found, name, y + shift, left, right))
    told = "; ".join(f"{label}: base {_said(a)}, trained {_said(b)}" for label, a, b in rows)
    return _svg(height, title, told, "".join(marks))


def _interval(found: Interval, name: str, y: float, left: float, right: float) -> str:
    value, low, high = (left + (right - left) * share for share in found)
    shape = (
        f'<rect x="{value - 5:.1f}" y="{y - 5}" width="10" height="10"/>'
        if name == "first"
        else f'<circle cx="{value:.1f}" cy="{y}" r="5.5"/>'
    )
    return (
        f'<g class="{name}"><line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" '
        f'stroke-width="2"/>{shape}</g>'
        f'<text x="{high + 6:.1f}" y="{y + 4}">{100 * found[0]:.1f}</text>'
    )


def _scale(left: float, right: float, bottom: float) -> str:
    marks = []
    for tenth in range(0, 11, 2):
        x = left + (right - left) * tenth / 10
        marks.append(
            f'<line class="grid" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{bottom}"/>'
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tenth * 10}</text>'
        )
    return "".join(marks)


@dataclass(frozen=True)
class _Plane:
    """Where k and a share lie in the picture of curves, in pixels."""

    longest: int
    left: int = 46
    right: int = _WIDTH - 90
    top: int = 12
    bottom: int = 250

    def x(self, k: int) -> float:
        return self.left + (self.right - self.left) * (k - 1) / max(1, self.longest - 1)

    def y(self, share: float) -> float:
        return self.bottom - (self.bottom - self.top) * share

    def line(self, points: Iterable[tuple[int, float]]) -> str:
        return " ".join(f"{self.x(k):.1f},{self.y(share):.1f}" for k, share in points)

    def axes(self) -> Iterator[str]:
        for fifth in range(6):
            y = self.y(fifth / 5)
            yield (
                f'<line class="grid" x1="{self.left}" y1="{y:.1f}" x2="{self.right}" y2="{y:.1f}"/>'
                f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{fifth * 20}</text>'
            )
        for k in shown_ks(self.longest):
            place = f'x="{self.x(k):.1f}" y="{self.bottom + 18}"'
            yield f'<text {place} text-anchor="middle">{k}</text>'


def curve_chart(title: str, curves: Mapping[str, Curve]) -> str:
    """Draw voting with its band and, dashed, pass@k, which is its ceiling, over k.

    ``curves`` go by ``first`` and ``second``.
    """
    plane = _Plane(max(len(curve.points) for curve in curves.values()))
    marks = [*plane.axes(), *(_curve(name, curve, plane) for name, curve in curves.items())]
    labels: list[tuple[float, str, str]] = []
    for name, curve in curves.items():
        last = curve.points[-1]
        labels.append((plane.y(last.vote), f"vote {100 * last.vote:.1f}", name))
        labels.append((plane.y(last.ceiling), f"pass {100 * last.ceiling:.1f}", name))
    marks += _spread(labels, plane.right + 6)
    told = "; ".join(
        f"{curve.policy} vote@{p.k} {100 * p.vote:.1f}, pass@{p.k} {100 * p.ceiling:.1f}"
        for curve in curves.values()
        for p in curve.points
        if p.k in shown_ks(plane.longest)
    )
    return _svg(plane.bottom + 30, title, told, "".join(marks))


def _curve(name: str, curve: Curve, plane: _Plane) -> str:
    """Draw the band, the votes and the ceiling of one policy."""
    points = curve.points
    upper = plane.line((p.k, p.vote_high) for p in points)
    lower = plane.line((p.k, p.vote_low) for p in reversed(points))
    votes = plane.line((p.k, p.vote) for p in points)
    ceiling = plane.line((p.k, p.ceiling) for p in points)
    return (
        f'<g class="{name}"><polygon class="band" points="{upper} {lower}"/>'
        f'<polyline points="{votes}"/><polyline class="dashed" points="{ceiling}"/></g>'
    )


def _spread(labels: Sequence[tuple[float, str, str]], x: float) -> list[str]:
    """Write labels at the ends of lines, none over another, each with its policy's colour."""
    marks, free = [], 0.0
    for wanted, text, name in sorted(labels):
        y = max(wanted, free)
        free = y + 14
        marks.append(
            f'<rect class="{name}" x="{x}" y="{y - 4:.1f}" width="7" height="7"/>'
            f'<text x="{x + 11}" y="{y + 4:.1f}">{escape(text)}</text>'
        )
    return marks


def shown_ks(longest: int) -> list[int]:
    """Return the powers of two up to the longest k, and that one."""
    return [k for k in range(1, longest + 1) if k & (k - 1) == 0 or k == longest]


def bar_chart(title: str, counts: Sequence[tuple[str, int, int]]) -> str:
    """Draw counts of the first and second policy: two bars for each label."""
    left, height = 240, len(counts) * 34 + 6
    most = max((max(a, b) for _, a, b in counts), default=1) or 1
    marks = []
    for place, (label, first, second) in enumerate(counts):
        y = place * 34 + 4
        marks.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end">{escape(label)}</text>')
        for count, name, shift in ((first, "first", 0), (second, "second", 13)):
            width = (_WIDTH - left - 50) * count / most
            marks.append(
                f'<rect class="{name}" x="{left}" y="{y + shift}" width="{width:.1f}" height="11"/>'
                f'<text x="{left + width + 6:.1f}" y="{y + shift + 10}">{count:,}</text>'
            )
    told = "; ".join(f"{label}: base {a}, trained {b}" for label, a, b in counts)
    return _svg(height, title, told, "".join(marks))


def _said(found: Interval | None) -> str:
    if found is None:
        return "nothing"
    return f"{100 * found[0]:.1f} ({100 * found[1]:.1f} to {100 * found[2]:.1f})"


def _svg(height: float, title: str, told: str, marks: str) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height}"><title>{escape(title)}</title>'
        f"<desc>{escape(told)}</desc>{marks}</svg>"
    )
