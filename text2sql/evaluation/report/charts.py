"""The charts of an evaluation, for its page and for Dagster: base and trained side by side."""

from __future__ import annotations

from collections.abc import Sequence

from text2sql.common import charts
from text2sql.evaluation.scores import BASE, TRAINED, Score, Scores
from text2sql.evaluation.slices import ALL, CORRECTED, DATABASE, GOLD, SUBSET
from text2sql.evaluation.vote_curve import Curve

COLOURS = {BASE: charts.FIRST, TRAINED: charts.SECOND}
PERCENT = {tenth / 10: str(10 * tenth) for tenth in range(0, 11, 2)}
"""Labels of an axis of shares."""
MOST_DATABASES = 12
"""The most databases in a chart: those with the most questions."""


def score_chart(
    names: Sequence[str], base: Sequence[Score | None], trained: Sequence[Score | None]
) -> charts.Chart:
    """Return the shares of both policies with their intervals, a row for each name."""
    groups = []
    for policy, scores in ((BASE, base), (TRAINED, trained)):
        drawn = [(one.value, one.low, one.high) if one and one.n else None for one in scores]
        groups.append(charts.Intervals(policy, drawn, COLOURS[policy]))
    return charts.intervals(names, groups)


def curve_chart(curves: Sequence[Curve]) -> charts.Chart:
    """Return voting at every k with its band and, dashed, pass@k, which is its ceiling."""
    longest = max(len(curve.points) for curve in curves)
    ticks = {float(k): str(k) for k in charts.shown_ks(longest)}
    drawn, points_in_words = [], []
    for curve in curves:
        points, colour = curve.points, COLOURS.get(curve.policy, charts.SECOND)
        votes, passes = [p.vote for p in points], [p.ceiling for p in points]
        band = [(p.vote_low, p.vote_high) for p in points]
        vote, ceiling = f"{100 * votes[-1]:.1f}", f"{100 * passes[-1]:.1f}"
        drawn.append(charts.Line(votes, f"{curve.policy} vote {vote}", colour, band=band))
        drawn.append(charts.Line(passes, f"{curve.policy} pass {ceiling}", colour, dashed=True))
        points_in_words += [
            f"{curve.policy} vote@{p.k} {100 * p.vote:.1f}, pass@{p.k} {100 * p.ceiling:.1f}"
            for p in points
            if p.k in ticks
        ]
    x, about = range(1, longest + 1), "; ".join(points_in_words)
    return charts.lines(x, drawn, ticks, PERCENT, x_label="k", description=about)


def class_chart(counts: Sequence[tuple[str, int, int]]) -> charts.Chart:
    """Return two bars for each class of failure: the questions of the base and of the trained."""
    names, base, trained = zip(*counts, strict=True)
    groups = [
        charts.Bars(values, [f"{value:,}" for value in values], policy, COLOURS[policy])
        for policy, values in ((BASE, base), (TRAINED, trained))
    ]
    return charts.bars(names, groups)


def metadata_charts(scores: Scores) -> dict[str, tuple[str, charts.Chart]]:
    """Return what Dagster shows, with file names: greedy overall and by database, voting curves."""

    def chart(shown: Sequence[Score]) -> charts.Chart:
        base, trained = (
            [scores.find(policy, "greedy", score.part, score.name) for score in shown]
            for policy in (BASE, TRAINED)
        )
        return score_chart([score.name or "all" for score in shown], base, trained)

    about = (TRAINED, "greedy")
    greedy = [one for one in scores.scores if (one.policy, one.setting) == about and one.n]
    parts = [one for one in greedy if one.part in (ALL, CORRECTED, GOLD, SUBSET)]
    largest = sorted((one for one in greedy if one.part == DATABASE), key=lambda one: -one.n)
    found = {
        "greedy accuracy": ("scores.png", chart(parts)),
        "greedy by database": ("databases.png", chart(largest[:MOST_DATABASES])),
    }
    if curves := [one for one in scores.curves if one.part == ALL and one.points]:
        found["voting at every k"] = ("curves.png", curve_chart(curves))
    return found
