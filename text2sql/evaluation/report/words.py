"""Numbers as sentences, which do not claim more than the numbers show."""

from __future__ import annotations

from text2sql.common.counting import counted
from text2sql.evaluation.promotion.champion import ADOPTED_RUN
from text2sql.evaluation.scores import Comparison, Score
from text2sql.evaluation.statistics import p_equals

SIGNIFICANT = 0.05
"""A difference with this p or more is within the noise (McNemar's exact test)."""


def difference(comparison: Comparison, than: str) -> str:
    """Return a sentence on whether the second policy is better than the first, and how surely."""
    won, lost, n = comparison.won, comparison.lost, comparison.n
    if not n:
        return f"Not comparable with {than}: no question was answered by both."
    counts = f"{won} gained, {lost} lost of {counted(n, 'question')}"
    counts += f" (McNemar exact, {p_equals(comparison.p)})"
    if not won + lost:
        return f"Every question has the same outcome as with {than} (n = {n})."
    if comparison.p >= SIGNIFICANT:
        return f"The difference to {than} is within the noise: {counts}."
    return f"{'Better' if won > lost else 'Worse'} than {than}: {counts}."


def champion_name(training_run: str) -> str:
    """Name the previous champion, by its training run where it has one."""
    if training_run == ADOPTED_RUN:
        return "the adopted champion"
    return f"the champion (run {training_run})"


def percent(share: float) -> str:
    """Write a share in percent with one decimal."""
    return f"{100 * share:.1f} %"


def interval(score: Score) -> str:
    """Write a score with its interval and n."""
    bounds = f"[{100 * score.low:.1f}, {100 * score.high:.1f}]"
    return f"{percent(score.value)} {bounds}, n = {score.n:,}"
