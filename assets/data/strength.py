"""Reward strength: the share of each gold query's near-misses that the reward tells apart."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from assets.checks.view import table
from assets.common.columns import named_columns
from assets.common.failures import fails_in_a_sentence
from assets.common.plots import plot, records
from assets.common.sources import JUDGE, SANDBOX, version_for
from assets.data.bird import data_asset, gold_results
from assets.data.own_dataset import own_current
from resources.artifact_root import ArtifactRoot
from resources.forms import Form
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import known_results_folder
from text2sql.common.charts import Bars, bars
from text2sql.common.files import write_whole
from text2sql.common.provenance import code_version, fingerprint
from text2sql.datasets import strength
from text2sql.datasets.stored import all_questions, dataset_folder
from text2sql.judge.known_results import KnownResults
from text2sql.judge.strength.measure import Strength
from text2sql.questions import Question
from text2sql.sandbox import Limits

_SHOWN_DATABASES = 16
"""The most databases that the picture shows: the weakest."""

_SHOWN_QUESTIONS = 20
_TENTHS = 10


class StrengthConfig(Form):
    """How to run near-misses."""

    seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="Time limit of one near-miss; one that takes longer does not count.",
    )


@data_asset(
    deps=[gold_results],
    code_version=version_for("reward_strength"),
    kinds={"jsonl"},
    metadata=named_columns(
        ("key", "str", "The question's key."),
        ("score", "float", "Share of near-misses that the reward tells apart; null without one."),
        ("reason", "str", "Why there is no score; empty if there is one."),
        ("near_misses", "list", "Each that was tried: its kind, change, SQL and outcome."),
    ),
)
@fails_in_a_sentence
def reward_strength(
    context: dg.AssetExecutionContext,
    config: StrengthConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """The share of near-misses of each gold query that the reward tells apart from it.

    Reuses what the same code has measured on the same data.
    """
    dataset = own_current(context, root.path)
    known = partial(KnownResults, known_results_folder(root.path, code_version(*SANDBOX)))
    limits, code, say = Limits(seconds=config.seconds), code_version(*JUDGE), context.log.info
    inputs = root.path, dataset, limits, code, sandbox.open, known, say
    found = strength.current_strength(*inputs)
    questions, folder = all_questions(root.path, dataset), dataset_folder(root.path, dataset)
    rows = strength.near_miss_rows(questions, found)
    frame = pd.DataFrame(rows, columns=strength.NEAR_MISS_COLUMNS, dtype="str")
    write_whole(folder / strength.NEAR_MISSES, frame.to_parquet(index=False))
    scores = [[one.key, one.score] for one in found]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(fingerprint(scores=scores)),
        metadata=_described(folder, questions, found),
    )


def _described(
    folder: Path, questions: Sequence[Question], found: Sequence[Strength]
) -> dict[str, Any]:
    """Return the metadata of reward strength; pictures are also written into ``folder``."""
    scores = {one.key: one.score for one in found if one.score is not None}
    counts = Counter(int(score * _TENTHS + 1e-9) for score in scores.values())
    tenths = {f"{tenth / _TENTHS:.1f}": counts[tenth] for tenth in range(_TENTHS + 1)}
    label = "questions by the share of near-misses told apart (from this value on)"
    values = Bars(list(tenths.values()), [f"{count:,}" for count in tenths.values()])
    distribution = bars(list(tenths), [values], label)

    means = strength.database_means(questions, scores)
    shown = dict(list(means.items())[:_SHOWN_DATABASES])
    more = len(means) - len(shown)
    label = "mean strength" + (f" ({more} stronger are not shown)" if more else "")
    texts = [f"{mean:.2f} of {count:,}" for mean, count in shown.values()]
    by_database = bars(
        list(shown), [Bars([mean for mean, _ in shown.values()], texts)], label, full=1
    )

    worst = strength.weakest(questions, found, _SHOWN_QUESTIONS)
    unscored = strength.unscored(found)
    return {
        "questions with a score": len(scores),
        "mean strength": round(fmean(scores.values()), 4) if scores else "unknown",
        "all near-misses told apart": sum(score == 1 for score in scores.values()),
        "near-misses by kind": records(strength.outcomes_by_kind(found)),
        "distribution": plot(folder / "strength.png", distribution),
        "by database": plot(folder / "strength_by_database.png", by_database),
        "weakest questions": table(pd.DataFrame(worst, columns=strength.WEAKEST)),
        "questions without a score": table(pd.DataFrame(unscored, columns=strength.UNSCORED)),
        "path": dg.MetadataValue.path(folder / strength.NEAR_MISSES),
    }
