"""The charts of an evaluation, for its page and for Dagster: base and trained side by side."""

from __future__ import annotations

from collections.abc import Sequence

from text2sql.common.charts import (
    FIRST,
    SECOND,
    Bars,
    Chart,
    Intervals,
    Line,
    bars,
    intervals,
    lines,
    shown_ks,
)
from text2sql.evaluation.scores import BASE, TRAINED, Score
from text2sql.evaluation.vote_curve import Curve

COLOURS = {BASE: FIRST, TRAINED: SECOND}
PERCENT = {tenth / 10: str(10 * tenth) for tenth in range(0, 11, 2)}
"""Labels of an axis of shares."""


def score_chart(
    names: Sequence[str], base: Sequence[Score | None], trained: Sequence[Score | None]
) -> Chart:
    """Return the shares of both policies with their intervals, a row for each name."""
    groups = [
        Intervals(
            policy,
            [(one.value, one.low, one.high) if one and one.n else None for one in scores],
            COLOURS[policy],
        )
        for policy, scores in ((BASE, base), (TRAINED, trained))
    ]
    return intervals(names, groups)


def curve_chart(curves: Sequence[Curve]) -> Chart:
    """Return voting at every k with its band and, dashed, pass@k, which is its ceiling."""
    longest = max(len(curve.points) for curve in curves)
    drawn, points_in_words = [], []
    for curve in curves:
        points, colour = curve.points, COLOURS.get(curve.policy, SECOND)
        votes, passes = [p.vote for p in points], [p.ceiling for p in points]
        band = [(p.vote_low, p.vote_high) for p in points]
        vote, ceiling = f"{100 * votes[-1]:.1f}", f"{100 * passes[-1]:.1f}"
        drawn.append(Line(votes, f"{curve.policy} vote {vote}", colour, band=band))
        drawn.append(Line(passes, f"{curve.policy} pass {ceiling}", colour, dashed=True))
        points_in_words += [
            f"{curve.policy} vote@{p.k} {100 * p.vote:.1f}, pass@{p.k} {100 * p.ceiling:.1f}"
            for p in points
            if p.k in shown_ks(longest)
        ]
    ticks = {float(k): str(k) for k in shown_ks(longest)}
    x = range(1, longest + 1)
    return lines(x, drawn, ticks, PERCENT, x_label="k", description="; ".join(points_in_words))


def class_chart(counts: Sequence[tuple[str, int, int]]) -> Chart:
    """Return two bars for each class of failure: the questions of the base and of the trained."""
    names = [name for name, _, _ in counts]
    groups = [
        Bars(values, [f"{value:,}" for value in values], policy, COLOURS[policy])
        for place, policy in ((1, BASE), (2, TRAINED))
        for values in [[int(row[place]) for row in counts]]
    ]
    return bars(names, groups)
