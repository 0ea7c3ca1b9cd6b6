"""What is shown of the difficulty filter and of a training run: sentences, tables and charts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from text2sql.common.charts import FIRST, SECOND, Bars, Chart, Line, bars, lines
from text2sql.common.counting import counted
from text2sql.questions import Question
from text2sql.training.difficulty import Difficulty, Kind
from text2sql.training.metrics import Metrics, is_finite

METRICS = (
    *("step", "reward", "exact_match", "loss", "entropy", "kl", "off_policy_lag"),
    *("tokens_per_second", "seconds"),
)
"""The columns of the table of a training run's last steps."""
SHOWN_GROUPS = 40
"""A chart shows at most this many groups: those with the most questions."""


def filter_summary(ratings: Sequence[Difficulty], about: Mapping[str, Any]) -> str:
    """Say how many questions the filter kept, and why not the others."""
    kinds = Counter(rating.kind for rating in ratings)
    return (
        f"Kept {about['kept']:,} of {counted(len(ratings), 'question')}: those solved "
        f"{about['least_solved']} to {_most_solved(about)} times in {about['samples']}. "
        f"Too hard: {kinds[Kind.TOO_HARD]:,}; too easy: {kinds[Kind.TOO_EASY]:,}."
    )


def kinds_table(
    ratings: Sequence[Difficulty], questions: int, unusable: int
) -> list[dict[str, Any]]:
    """Return how many of all ``questions`` are of each kind, or were not sampled at all."""
    kinds = Counter(rating.kind for rating in ratings)
    kinds[Kind.UNUSABLE] = unusable
    counts = {str(kind): kinds[kind] for kind in Kind}
    if not_asked := questions - kinds.total():
        counts["not asked"] = not_asked
    return [{"kind": kind, "questions": count} for kind, count in counts.items()]


def solved_chart(ratings: Sequence[Difficulty], about: Mapping[str, Any]) -> Chart:
    """Return how many questions were solved how often; those that are kept are coloured."""
    solved = Counter(rating.solved for rating in ratings if rating.valid)
    numbers = range(about["samples"] + 1)
    counts = [solved[number] for number in numbers]
    kept = range(about["least_solved"], _most_solved(about) + 1)
    muted = [number for number in numbers if number not in kept]
    group = Bars(counts, [f"{count:,}" for count in counts], muted=muted)
    title = "questions by rollouts that match the gold result"
    return bars([str(number) for number in numbers], [group], title)


def _most_solved(about: Mapping[str, Any]) -> int:
    """Return the most often that a kept question was solved: never every time."""
    return min(about["most_solved"] or about["samples"], about["samples"] - 1)


def kept_chart(
    questions: Sequence[Question], ratings: Sequence[Difficulty], group: Callable[[Question], str]
) -> Chart:
    """Return the share of rated questions that each group keeps, the largest group first."""
    groups = {question.key: group(question) for question in questions}
    rated = Counter(groups[rating.key] for rating in ratings)
    kept = Counter(groups[rating.key] for rating in ratings if rating.kind is Kind.TRAINABLE)
    shown = rated.most_common(SHOWN_GROUPS)
    more = len(rated) - len(shown)
    texts = [f"{kept[name]:,} of {count:,}" for name, count in shown]
    label = "share kept" + (f" ({more} more are not shown)" if more else "")
    bar = Bars([kept[name] / count for name, count in shown], texts)
    return bars([name for name, _ in shown], [bar], label, full=1)


def training_summary(record: Mapping[str, Any], metrics: Sequence[Metrics]) -> str:
    """Say how long the training took, on what, and how its reward changed."""
    steps, prompts = counted(len(metrics), "step"), counted(record["prompts"], "prompt")
    changed = ", ".join(f"{name} {value}" for name, value in record["changed_settings"].items())
    rewards = [line["reward"] for line in metrics if is_finite(line.get("reward"))]
    reward = f" The reward went from {rewards[0]:.2f} to {rewards[-1]:.2f}." if rewards else ""
    settings = f", with {changed}" if changed else ""
    return f"{steps} on {prompts} in {record['seconds']:,.0f} s{settings}.{reward}"


def last_steps(metrics: Sequence[Metrics]) -> list[dict[str, Any]]:
    """Return a table of the last steps; unknown numbers are empty."""
    names = [name for name in METRICS if any(name in line for line in metrics)]
    return [
        {name: round(line[name], 4) if is_finite(line.get(name)) else "" for name in names}
        for line in metrics[-10:]
    ]


def reward_chart(metrics: Sequence[Metrics]) -> Chart:
    """Return reward and exact match over the steps of a training run; unknown values are gaps."""
    drawn = [
        Line(
            [row[name] if is_finite(row.get(name)) else math.nan for row in metrics],
            name.replace("_", " "),
            colour,
        )
        for name, colour in (("reward", FIRST), ("exact_match", SECOND))
    ]
    steps = [row["step"] for row in metrics]
    ticks = {float(step): f"{step:,}" for step in (steps[0], steps[-1])} if steps else {}
    y_ticks = {tenth / 10: f"{tenth / 10:.1f}" for tenth in range(0, 11, 2)}
    return lines(steps, drawn, ticks, y_ticks, dots=True, x_label="step")
