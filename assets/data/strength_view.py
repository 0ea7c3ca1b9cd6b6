"""What Dagster shows of reward strength: distribution, databases, the weakest questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.view import table
from assets.common.plots import plot, records
from text2sql.common.charts import Bars, Chart, bars
from text2sql.datasets.strength import (
    UNSCORED,
    WEAKEST,
    database_means,
    outcomes_by_kind,
    unscored,
    weakest,
)
from text2sql.judge.strength.measure import Strength
from text2sql.questions import Question

SHOWN_DATABASES = 16
"""The most databases that the picture shows: the weakest."""

SHOWN_QUESTIONS = 20
_TENTHS = 10


def describe_strength(
    folder: Path, questions: Sequence[Question], found: Sequence[Strength]
) -> dict[str, Any]:
    """Return the metadata of reward strength; pictures are also written into ``folder``."""
    scores = {one.key: one.score for one in found if one.score is not None}
    means = database_means(questions, scores)
    worst = pd.DataFrame(weakest(questions, found, SHOWN_QUESTIONS), columns=WEAKEST)
    return {
        "questions with a score": len(scores),
        "mean strength": round(fmean(scores.values()), 4) if scores else "unknown",
        "all near-misses told apart": sum(score == 1 for score in scores.values()),
        "near-misses by kind": records(outcomes_by_kind(found)),
        "distribution": plot(folder / "strength.png", _distribution(list(scores.values()))),
        "by database": plot(folder / "strength_by_database.png", _by_database(means)),
        "weakest questions": table(worst),
        "questions without a score": table(pd.DataFrame(unscored(found), columns=UNSCORED)),
        "path": dg.MetadataValue.path(folder / "strength.parquet"),
    }


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
