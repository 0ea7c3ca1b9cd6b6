"""What Dagster shows of reward strength: distribution, near-misses, databases, the weakest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.view import table
from assets.common.plots import plot, records
from text2sql.common.charts import Bars, Chart, bars
from text2sql.judge.strength.changes import Kind
from text2sql.judge.strength.measure import NearMissOutcome, Strength
from text2sql.questions import Question

SHOWN_DATABASES = 16
"""Databases that the picture shows at most: the weakest."""

SHOWN_QUESTIONS = 20
_TENTHS = 10


def describe_strength(
    folder: Path, questions: Sequence[Question], found: Sequence[Strength], frame: pd.DataFrame
) -> dict[str, Any]:
    """Return the metadata of reward strength; pictures are also written into ``folder``.

    ``frame`` has a row a near-miss.
    """
    scores = {one.key: one.score for one in found if one.score is not None}
    means = database_means(questions, scores)
    return {
        "questions with a score": len(scores),
        "mean strength": round(fmean(scores.values()), 4) if scores else "unknown",
        "all near-misses told apart": sum(score == 1 for score in scores.values()),
        "near-misses by kind": records(_by_kind(frame)),
        "distribution": plot(folder / "strength.png", _distribution(list(scores.values()))),
        "by database": plot(folder / "strength_by_database.png", _by_database(means)),
        "weakest questions": table(_weakest(questions, found)),
        "questions without a score": table(_unscored(found)),
        "path": dg.MetadataValue.path(folder / "strength.parquet"),
    }


def database_means(
    questions: Sequence[Question], scores: Mapping[str, float]
) -> dict[str, tuple[float, int]]:
    """Return mean strength and number of scored questions by database, the weakest first."""
    parts: dict[str, list[float]] = defaultdict(list)
    for question in questions:
        if question.key in scores:
            parts[question.db_id].append(scores[question.key])
    means = {name: (fmean(values), len(values)) for name, values in parts.items()}
    return dict(sorted(means.items(), key=lambda item: item[1][0]))


def _by_kind(frame: pd.DataFrame) -> list[dict[str, Any]]:
    counts = frame.groupby(["kind", "outcome"]).size().to_dict()
    return [
        {"kind": kind.value}
        | {out.value.replace("_", " "): int(counts.get((kind, out), 0)) for out in NearMissOutcome}
        for kind in Kind
    ]


def _weakest(questions: Sequence[Question], found: Sequence[Strength]) -> pd.DataFrame:
    """Return the questions of the lowest scores, those with the most near-misses first."""
    asked = {question.key: question for question in questions}
    scored = [one for one in found if one.score is not None and one.score < 1]
    scored.sort(key=lambda one: (one.score, -one.count(NearMissOutcome.SURVIVED)))
    rows = [
        {
            "key": one.key,
            "db_id": asked[one.key].db_id,
            "strength": f"{one.score:.2f}",
            "survived": one.count(NearMissOutcome.SURVIVED),
            "returns the same": "; ".join(
                tried.change for tried in one.tried if tried.outcome is NearMissOutcome.SURVIVED
            ),
            "sql": asked[one.key].sql,
        }
        for one in scored[:SHOWN_QUESTIONS]
    ]
    columns = ["key", "db_id", "strength", "survived", "returns the same", "sql"]
    return pd.DataFrame(rows, columns=columns)


def _unscored(found: Sequence[Strength]) -> pd.DataFrame:
    """Return why questions have no score, how many, and the first of them."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for one in found:
        if one.score is None:
            reasons[one.reason].append(one.key)
    rows = [
        {"reason": reason, "questions": len(keys), "first": ", ".join(keys[:5])}
        for reason, keys in sorted(reasons.items(), key=lambda item: -len(item[1]))
    ]
    return pd.DataFrame(rows, columns=["reason", "questions", "first"])


def _distribution(scores: Sequence[float]) -> Chart:
    counts = Counter(int(score * _TENTHS + 1e-9) for score in scores)
    values = [counts[tenth] for tenth in range(_TENTHS + 1)]
    names = [f"{tenth / _TENTHS:.1f}" for tenth in range(_TENTHS + 1)]
    label = "questions by the share of near-misses told apart (from this value on)"
    return bars(names, [Bars(values, [f"{value:,}" for value in values])], label)


def _by_database(means: Mapping[str, tuple[float, int]]) -> Chart:
    shown = dict(list(means.items())[:SHOWN_DATABASES])
    more = len(means) - len(shown)
    texts = [f"{mean:.2f} of {count:,}" for mean, count in shown.values()]
    label = "mean strength" + (f" ({more} stronger are not shown)" if more else "")
    return bars(list(shown), [Bars([mean for mean, _ in shown.values()], texts)], label, full=1)
