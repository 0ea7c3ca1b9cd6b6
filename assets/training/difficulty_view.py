"""What Dagster shows of the difficulty filter: how hard the questions were, and what was kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.plots import plot, records
from text2sql.common.charts import Bars, Chart, bars
from text2sql.common.counting import counted
from text2sql.questions import Question
from text2sql.training.difficulty import Difficulty, Kind

SHOWN_PARTS = 40
"""Databases that a picture shows at most: those with the most questions."""


def describe_prompts(
    folder: Path,
    questions: Sequence[Question],
    ratings: Sequence[Difficulty],
    about: Mapping[str, Any],
    unusable: int,
) -> dict[str, Any]:
    """Return the metadata of the prompts; pictures are also written into ``folder``.

    ``questions`` are all of the split, ``unusable`` how many of them have no usable gold.
    """
    samples = about["samples"]
    most = min(about["most_solved"] or samples, samples - 1)
    solved = Counter(rating.solved for rating in ratings if rating.valid)
    counts = [solved[number] for number in range(samples + 1)]
    histogram = _histogram(counts, range(about["least_solved"], most + 1))
    by_database = kept_by(questions, ratings, lambda question: question.db_id)
    by_difficulty = kept_by(questions, ratings, lambda question: question.difficulty or "none")
    return {
        "what happened": _summary(ratings, about, most),
        "prompts": about["kept"],
        "kinds": records(_kinds(ratings, len(questions), unusable)),
        "solved": plot(folder / "solved.png", histogram),
        "kept by database": _parts(folder / "kept_by_database.png", by_database),
        "kept by difficulty": _parts(folder / "kept_by_difficulty.png", by_difficulty),
        "fingerprint": about["fingerprint"],
        "policy revision": about["policy_revision"],
        "path": dg.MetadataValue.path(folder),
    }


def _summary(ratings: Sequence[Difficulty], about: Mapping[str, Any], most: int) -> str:
    """Say how many questions were kept, why, and what became of the others."""
    kinds = Counter(rating.kind for rating in ratings)
    asked = counted(len(ratings), "question is", "questions are")
    return (
        f"{about['kept']:,} of {asked} kept: those solved "
        f"{about['least_solved']} to {most} times in {about['samples']}. "
        f"Too hard: {kinds[Kind.TOO_HARD]:,}; too easy: {kinds[Kind.TOO_EASY]:,}."
    )


def kept_by(
    questions: Sequence[Question],
    ratings: Sequence[Difficulty],
    part: Callable[[Question], str],
) -> dict[str, tuple[int, int]]:
    """Return for each part how many questions were kept and how many were asked.

    Those with the most questions come first.
    """
    parts = {question.key: part(question) for question in questions}
    asked = Counter(parts[rating.key] for rating in ratings)
    kept = Counter(parts[rating.key] for rating in ratings if rating.kind is Kind.TRAINABLE)
    return {name: (kept[name], count) for name, count in asked.most_common()}


def _kinds(ratings: Sequence[Difficulty], questions: int, unusable: int) -> list[dict[str, Any]]:
    """Return how many questions are of each kind; those that were not asked are told apart."""
    kinds = Counter(rating.kind for rating in ratings)
    kinds[Kind.UNUSABLE] = unusable
    rows = [{"kind": str(kind), "questions": kinds[kind]} for kind in Kind]
    left_out = questions - kinds.total()
    return [*rows, {"kind": "not asked", "questions": left_out}] if left_out else rows


def _histogram(counts: Sequence[int], kept: range) -> Chart:
    """Return how many questions were solved how often; those that are kept are coloured."""
    names = [str(solved) for solved in range(len(counts))]
    muted = [solved for solved in range(len(counts)) if solved not in kept]
    group = Bars(counts, [f"{count:,}" for count in counts], muted=muted)
    return bars(names, [group], "questions by rollouts that match the gold result")


def _parts(path: Path, parts: Mapping[str, tuple[int, int]]) -> dg.MetadataValue:
    shown = dict(list(parts.items())[:SHOWN_PARTS])
    more = len(parts) - len(shown)
    texts = [f"{kept:,} of {asked:,}" for kept, asked in shown.values()]
    label = "share kept" + (f" ({more} more are not shown)" if more else "")
    group = Bars([kept / asked for kept, asked in shown.values()], texts)
    return plot(path, bars(list(shown), [group], label, full=1))
