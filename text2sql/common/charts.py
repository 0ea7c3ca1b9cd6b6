"""Every chart of the project, drawn by matplotlib: SVG for pages, PNG for Dagster's metadata.

Two policies differ in colour (orange and blue of M. Okabe and K. Ito's palette, which colour-blind
people tell apart) and in shape or label as well. A picture depends only on what it shows.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from text2sql.errors import Text2SqlError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIRST, SECOND = "#b45f06", "#0072b2"
"""Colours of the base and the trained policy; the second one where there is nothing to compare."""
_INK, _GRID, _MUTED = "#1f2329", "#d0d7df", "#8c959f"
_VARIABLES = {FIRST: "--first", SECOND: "--second", _INK: "--ink", _GRID: "--grid", _MUTED: "--dim"}
"""matplotlib's colours and the variables of ``base.html`` that they become in a page."""

_SERIES_PER_ROW = {1: 24, 2: 34}
"""Pixels that a row of bars takes, by its number of bars."""
_LEAST_GAP = 14
"""Pixels between two labels at the ends of lines."""
_MARKERS = {FIRST: "s", SECOND: "o"}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's colour
    "svg.hashsalt": "text2sql",  # ids would be random without it
    "text.parse_math": False,  # a dollar sign is data, not a formula
    "font.size": 12,
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color", "axes.labelcolor"), _INK),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _GRID),
    **dict.fromkeys(("xtick.major.pad", "ytick.major.pad"), 8),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor"), "none"),  # the page's own background
    "axes.axisbelow": True,
}


@dataclass(frozen=True)
class Chart:
    """A chart that can be drawn; the size is that of its plane in pixels, without labels."""

    width: int
    height: int
    draw: Callable[[Axes], None]
    description: str
    """What the chart shows, for those who do not see it."""

    def svg(self, title: str, description: str = "") -> Markup:
        """Return an ``svg`` element for a page, that is a template which extends ``base.html``."""
        out = io.StringIO()
        about = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with _drawn(self) as figure:
            figure.savefig(out, format="svg", bbox_inches="tight", pad_inches=0.03, metadata=about)
        return _inline(out.getvalue(), title, description or self.description)

    def png(self) -> bytes:
        """Return a picture of 64 colours, a third of the size of one with all of them."""
        out = io.BytesIO()
        with _drawn(self) as figure:
            figure.savefig(out, format="png", bbox_inches="tight", dpi=80, facecolor="white")
        return _with_fewer_colours(out)


@contextmanager
def _drawn(chart: Chart) -> Iterator[Figure]:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise Text2SqlError(
            f"{error}: charts need text2sql-lifecycle[reporting]; install it."
        ) from error

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # The reader's fonts draw the text of an SVG, so matplotlib's own may lack letters.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(chart.width / 72, chart.height / 72), dpi=72)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        chart.draw(axes)
        yield figure


def _with_fewer_colours(picture: io.BytesIO) -> bytes:
    from PIL import Image

    small = io.BytesIO()
    Image.open(picture).convert("RGB").quantize(64).save(small, format="png", optimize=True)
    return small.getvalue()


@dataclass(frozen=True)
class Bars:
    """A bar for each name, and the text at its end; ``muted`` bars, by their place, are grey."""

    values: Sequence[float]
    texts: Sequence[str]
    label: str = ""
    colour: str = SECOND
    muted: Collection[int] = ()


def bars(
    names: Sequence[str], groups: Sequence[Bars], x_label: str = "", full: float = 0.0
) -> Chart:
    """Return horizontal bars, the first name on top, with every name and text in full.

    The longest bar fills the chart, or one of the value ``full``. Bars begin at zero, since
    others would exaggerate.
    """
    thick = 0.76 / len(groups)

    def draw(axes: Axes) -> None:
        values = [0.0, full, *(float(value) for group in groups for value in group.values)]
        axes.set_xlim(min(values), max(values) if any(values) else 1)
        for number, group in enumerate(groups):
            places = [row + (number - (len(groups) - 1) / 2) * thick for row in range(len(names))]
            colours = [_MUTED if i in group.muted else group.colour for i in range(len(names))]
            axes.barh(places, group.values, thick * 0.94, color=colours)
            for place, value, text in zip(places, group.values, group.texts, strict=True):
                _write(axes, text, (max(0.0, value), place))
        axes.axvline(0, color=_MUTED, linewidth=1)
        _name_rows(axes, names)
        axes.set_xticks([])
        axes.set_xlabel(x_label)

    rows = [
        f"{name}{':' * bool(groups[0].label)} "
        + ", ".join(f"{group.label} {group.texts[row]}".strip() for group in groups)
        for row, name in enumerate(names)
    ]
    height = max(1, len(names)) * _SERIES_PER_ROW.get(len(groups), 17 * len(groups))
    return Chart(320, height, draw, "; ".join(rows))


@dataclass(frozen=True)
class Intervals:
    """Shares with their intervals: (value, low, high) for each name, None where there is none."""

    label: str
    values: Sequence[tuple[float, float, float] | None]
    colour: str = SECOND


def intervals(names: Sequence[str], groups: Sequence[Intervals]) -> Chart:
    """Return shares as marks with whiskers in percent, a row for each name, the first on top."""

    def draw(axes: Axes) -> None:
        for number, group in enumerate(groups):
            shift = (number - (len(groups) - 1) / 2) * 0.4
            for row, found in enumerate(group.values):
                if found:
                    value, low, high = (100 * share for share in found)
                    axes.plot((low, high), (row + shift,) * 2, color=group.colour, linewidth=2)
                    mark = _MARKERS.get(group.colour, "D")
                    axes.plot(value, row + shift, mark, color=group.colour, clip_on=False)
                    _write(axes, f"{value:.1f}", (high, row + shift))
        _name_rows(axes, names)
        axes.set_xticks(range(0, 101, 20))
        axes.set_xlim(0, 100)
        axes.grid(axis="x")
        if len(groups) > 1:
            _legend(axes, groups)

    rows = [
        f"{name}: " + ", ".join(f"{group.label} {_in_words(group.values[row])}" for group in groups)
        for row, name in enumerate(names)
    ]
    return Chart(430, max(1, len(names)) * 42, draw, "; ".join(rows))


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_clean(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def _write(axes: Axes, text: str, place: tuple[float, float], **more: Any) -> None:
    """Write a text to the right of a place, also where it leaves the plane."""
    axes.annotate(
        _clean(text), place, (6, 0), textcoords="offset points", va="center_baseline",
        annotation_clip=False, **more,
    )  # fmt: skip


def _legend(axes: Axes, groups: Sequence[Intervals]) -> None:
    for group in groups:  # lines without points, which only the legend shows
        mark = _MARKERS.get(group.colour, "D")
        axes.plot([], [], mark, color=group.colour, label=group.label)
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=len(groups), frameon=False,
        handlelength=1, handletextpad=0.2, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def _in_words(found: tuple[float, float, float] | None) -> str:
    return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * one for one in found)) if found else "nothing"


@dataclass(frozen=True)
class Line:
    """Values over the x of its chart, from the first on; ``band`` are their low and high ends.

    A value that is not finite is a gap. The label stands at the end of the line.
    """

    values: Sequence[float]
    label: str = ""
    colour: str = SECOND
    dashed: bool = False
    band: Sequence[tuple[float, float]] = ()


def lines(
    x: Sequence[float],
    drawn: Sequence[Line],
    x_ticks: Mapping[float, str],
    y_ticks: Mapping[float, str],
    *,
    dots: bool = False,
    x_label: str = "",
    description: str = "",
) -> Chart:
    """Return lines over ``x``; the least and the greatest of ``y_ticks`` end the axis."""
    width, height = 480, 220
    bottom, top = min(y_ticks), max(y_ticks)

    def draw(axes: Axes) -> None:
        axes.set_ylim(bottom, top)
        for line in drawn:
            along = x[: len(line.values)]
            if line.band:
                low, high = zip(*line.band, strict=True)
                axes.fill_between(along, low, high, color=line.colour, alpha=0.16, linewidth=0)
            style, mark = "--" if line.dashed else "-", "." if dots else None
            axes.plot(
                along, line.values, style, marker=mark, color=line.colour, linewidth=2,
                clip_on=False,
            )  # fmt: skip
        for y, line in _spread(drawn, (top - bottom) * _LEAST_GAP / height, bottom):
            beside = {"xycoords": axes.get_yaxis_transform(), "color": line.colour}
            _write(axes, line.label, (1, y), **beside)
        if len(x) > 1:
            axes.set_xlim(min(x), max(x))
        axes.set_xticks(list(x_ticks), [_clean(text) for text in x_ticks.values()])
        axes.set_yticks(list(y_ticks), [_clean(text) for text in y_ticks.values()])
        axes.grid(axis="y")
        if bottom < 0 < top:
            axes.axhline(0, color=_MUTED, linewidth=1)
        axes.set_xlabel(x_label)

    return Chart(width, height, draw, description)


def _spread(drawn: Sequence[Line], gap: float, bottom: float) -> Iterator[tuple[float, Line]]:
    """Yield where the label of each line stands: at its end, and none over another."""
    ends = [
        (next((value for value in reversed(line.values) if isfinite(value)), bottom), line)
        for line in drawn
        if line.label
    ]
    free = bottom
    for end, line in sorted(ends, key=lambda one: one[0]):
        place = max(end, free)
        free = place + gap
        yield place, line


def shown_ks(longest: int) -> list[int]:
    """Return the powers of two up to the longest k, and that one."""
    return [k for k in range(1, longest + 1) if k & (k - 1) == 0 or k == longest]


def short_number(value: float) -> str:
    """Write a number for people: thousands apart, at most three digits behind the point.

    Integers keep all digits; a float that is too large or too small for that has three.
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value and not 0.001 <= abs(value) < 1e15:
        return f"{value:.3g}"
    return f"{value or 0:,.3f}".rstrip("0").rstrip(".")  # never -0


# What XML cannot hold: control characters and halves of surrogate pairs.
_NOT_XML = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def _clean(text: str) -> str:
    """Return a text on one line of characters that fonts and XML take."""
    return _NOT_XML.sub("\ufffd", " ".join(text.split()))


_ROOT = re.compile(r"<svg [^>]*?viewBox=\"0 0 ([\d.]+) ([\d.]+)\"[^>]*>(.*)</svg>", re.DOTALL)
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", re.DOTALL)
_ID = re.compile(r' id="([^"]*)"')
_COLOUR = re.compile("|".join(_VARIABLES))


def _inline(whole: str, title: str, description: str) -> Markup:
    """Turn matplotlib's SVG document into an element of a page.

    Text is left to the page's font, colours to its style. Nothing of the document's head stays:
    its name spaces are addresses, its style would hold for the page, and its ids come again in
    every chart.
    """
    found = _ROOT.search(whole)
    assert found is not None
    width, height, body = found.groups()
    body = _DROPPED.sub("", body)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))

    def restyled(tag: re.Match[str]) -> str:
        text = tag[0].replace("xlink:href", "href")
        text = _ID.sub(lambda one: one[0] if one[1] in used else "", text)
        text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
        return _COLOUR.sub(lambda one: f"var({_VARIABLES[one[0]]})", text)

    body = re.sub("<[^>]+>", restyled, body)  # not what is written between the tags
    size = f'width="{float(width):.0f}" height="{float(height):.0f}" viewBox="0 0 {width} {height}"'
    about = Markup("<title>{}</title><desc>{}</desc>").format(_clean(title), _clean(description))
    return Markup(f'<svg role="img" {size}>{about}{body}</svg>')
