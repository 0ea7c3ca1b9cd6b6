"""Reward strength: the share of each gold query's near-misses that the reward tells apart."""

from contextlib import closing

import dagster as dg
import pandas as pd
from pydantic import Field

from assets.common.columns import DATA_TEAM, named_columns
from assets.common.failures import fails_in_a_sentence
from assets.common.sources import JUDGE, SANDBOX, version_for
from assets.data.bird import gold_results
from assets.data.own_dataset import own_current
from assets.data.strength_view import describe_strength
from resources.forms import Form
from resources.paths import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import known_results_folder
from text2sql.common.files import write_whole
from text2sql.common.provenance import code_version, fingerprint
from text2sql.datasets.stored import all_questions, dataset_folder
from text2sql.datasets.strength import (
    NEAR_MISS_COLUMNS,
    NEAR_MISSES,
    measure_dataset,
    near_miss_rows,
    stored_strength,
    strength_version,
)
from text2sql.judge.known_results import KnownResults
from text2sql.sandbox import Limits


class StrengthConfig(Form):
    """How to run near-misses."""

    seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="Time limit of one near-miss; one that takes longer does not count.",
    )


@dg.asset(
    group_name="bird",
    deps=[gold_results],
    owners=DATA_TEAM,
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
    version = strength_version(root.path, dataset, config.seconds, code_version(*JUDGE))
    found = stored_strength(root.path, dataset, version)
    if found is None:
        known = KnownResults(known_results_folder(root.path, code_version(*SANDBOX)))
        limits = Limits(seconds=config.seconds)
        with closing(known), sandbox.open() as box:
            found = measure_dataset(
                root.path, dataset, version, box, limits, known, context.log.info
            )
    else:
        context.log.info("Reused the reward strength of an earlier run: nothing has changed.")
    questions, folder = all_questions(root.path, dataset), dataset_folder(root.path, dataset)
    rows = near_miss_rows(questions, found)
    frame = pd.DataFrame(rows, columns=NEAR_MISS_COLUMNS, dtype="str")
    write_whole(folder / NEAR_MISSES, frame.to_parquet(index=False))
    scores = [[strength.key, strength.score] for strength in found]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(fingerprint(scores=scores)),
        metadata=describe_strength(folder, questions, found),
    )
