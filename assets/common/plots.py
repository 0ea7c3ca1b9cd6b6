"""Small pictures and tables for the metadata that Dagster shows."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from text2sql.common.files import write_whole
from text2sql.evaluation.scores import BASE, TRAINED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from text2sql.evaluation.vote_curve import Curve

LIMIT = 48_000
"""Bytes of a picture that metadata may hold; a larger one is shown by its path."""
ORANGE, BLUE = "#e69f00", "#0072b2"
"""Of M. Okabe and K. Ito's palette, which colour-blind people tell apart."""
COLOURS = {BASE: ORANGE, TRAINED: BLUE}


def plot(
    path: Path,
    draw: Callable[[Axes], None],
    width: float = 6.0,
    height: float = 3.2,
    limit: int = LIMIT,
) -> dg.MetadataValue:
    """Draw a picture of so many inches into ``path`` and return metadata that shows it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=80, layout="constrained")
    draw(figure.subplots())
    picture = _png(figure)
    write_whole(path, picture)
    text = base64.b64encode(picture).decode()
    if len(text) > limit:
        return dg.MetadataValue.path(path)
    return dg.MetadataValue.md(f"![{path.stem}](data:image/png;base64,{text})")


def _png(figure: Figure) -> bytes:
    """Return a drawing as PNG with 64 colours, a third of the size of one with all of them."""
    from PIL import Image

    full, small = io.BytesIO(), io.BytesIO()
    figure.savefig(full, format="png")
    image = Image.open(full).convert("RGB").quantize(64)
    image.save(small, format="png", optimize=True)
    return small.getvalue()


def records(rows: Sequence[dict[str, Any]]) -> dg.MetadataValue:
    """Return rows of equal keys as a table."""
    if not rows:
        return dg.MetadataValue.text("nothing")
    kinds = {int: "int", float: "float"}
    columns = [
        dg.TableColumn(name, kinds.get(type(value), "string")) for name, value in rows[0].items()
    ]
    return dg.MetadataValue.table(
        [dg.TableRecord(row) for row in rows], schema=dg.TableSchema(columns=columns)
    )


def draw_training(lines: Sequence[dict[str, Any]]) -> Callable[[Axes], None]:
    """Return a drawing of reward and exact match over the steps of a training run."""

    def draw(axes: Axes) -> None:
        steps = [line["step"] for line in lines]
        for name, label in (("reward", "reward"), ("exact_match", "exact match")):
            axes.plot(steps, [line.get(name, nan) for line in lines], marker=".", label=label)
        axes.set_xlabel("step")
        axes.set_ylim(-0.05, 1.05)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")

    return draw


def draw_histogram(counts: Sequence[int], kept: range) -> Callable[[Axes], None]:
    """Return a drawing of how many questions were solved how often; ``kept`` is coloured."""

    def draw(axes: Axes) -> None:
        colours = ["tab:blue" if solved in kept else "lightgrey" for solved in range(len(counts))]
        bars = axes.bar(range(len(counts)), counts, color=colours)
        axes.bar_label(bars, fontsize=8)
        axes.set_xticks(range(len(counts)))
        axes.set_xlabel("rollouts that match the gold result")
        axes.set_ylabel("questions")

    return draw


def draw_parts(parts: Mapping[str, tuple[int, int]], more: int = 0) -> Callable[[Axes], None]:
    """Return a drawing of the kept share of each part: (kept, asked), the first on top.

    ``more`` parts are not shown, and the drawing says so.
    """

    def draw(axes: Axes) -> None:
        shares = [kept / asked for kept, asked in parts.values()]
        bars = axes.barh(range(len(parts)), shares, color="tab:blue")
        labels = [f"{kept:,} of {asked:,}" for kept, asked in parts.values()]
        axes.bar_label(bars, labels, fontsize=8, padding=3)
        axes.set_yticks(range(len(parts)), list(parts), fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.15)
        axes.set_xlabel("share kept" + (f" ({more} more are not shown)" if more else ""))

    return draw


def draw_curves(curves: Sequence[Curve]) -> Callable[[Axes], None]:
    """Return a drawing of voting at every k with its band, and dashed pass@k, its ceiling."""

    def draw(axes: Axes) -> None:
        for curve in curves:
            ks = [point.k for point in curve.points]
            colour = COLOURS.get(curve.policy)
            low, high = ([getattr(p, f"vote_{end}") for p in curve.points] for end in _ENDS)
            axes.fill_between(ks, low, high, color=colour, alpha=0.15)
            for name, style in (("vote", "-"), ("ceiling", "--")):
                label = f"{curve.policy} {'vote@k' if name == 'vote' else 'pass@k'}"
                values = [getattr(point, name) for point in curve.points]
                axes.plot(ks, values, style, color=colour, label=label)
        axes.set_xlabel("k")
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right", fontsize=8)

    return draw


_ENDS = ("low", "high")
MOST_FLAT = 6
"""More labels below an axis than this are turned, so that none lies over another."""


def draw_scores(
    labels: Sequence[str], series: dict[str, list[tuple[float, float, float]]]
) -> Callable[[Axes], None]:
    """Return a drawing of shares with their intervals: (value, low, high) a label and policy."""

    def draw(axes: Axes) -> None:
        width = 0.8 / max(1, len(series))
        for place, (name, values) in enumerate(series.items()):
            x = [index + (place - (len(series) - 1) / 2) * width for index in range(len(values))]
            below = [value - low for value, low, _ in values]
            above = [high - value for value, _, high in values]
            heights = [value for value, _, _ in values]
            colour, hatch = COLOURS.get(name), "//" if name == BASE else None
            axes.bar(x, heights, width, label=name, color=colour, hatch=hatch)
            axes.errorbar(x, heights, yerr=[below, above], fmt="none", ecolor="black", capsize=2)
        turned = 60 if len(labels) > MOST_FLAT else 0
        ends = "right" if turned else "center"
        axes.set_xticks(range(len(labels)), labels, fontsize=8, rotation=turned, ha=ends)
        axes.set_ylim(0, 1)
        axes.set_ylabel("execution accuracy")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8, frameon=False)

    return draw
