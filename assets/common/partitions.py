"""The two partitions of assets: by training run and by day."""

from __future__ import annotations

import dagster as dg

from resources.automation import project_time_zone
from text2sql.errors import Text2SqlError
from text2sql.training.runs import require_run_name

TRAINING_RUN = "training_run"
training_runs = dg.DynamicPartitionsDefinition(name=TRAINING_RUN)
"""One key per training run; a person, a sensor or the demo adds it before the run starts."""

PARTITION_TAG = "dagster/partition"


TIME_ZONE = project_time_zone()

days = dg.DailyPartitionsDefinition(start_date="2026-01-01", timezone=TIME_ZONE, end_offset=1)
"""One key per day; today's exists from midnight on, so that today can be answered."""


def training_run_of(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> str | None:
    """Return the training run that the Dagster run belongs to, if any."""
    return context.run.tags.get(PARTITION_TAG)


def assets_of(context: dg.OpExecutionContext) -> set[dg.AssetKey]:
    """Return the assets that the Dagster run materializes."""
    return set(context.run.asset_selection or context.job_def.asset_layer.executable_asset_keys)


def require_training_run(context: dg.OpExecutionContext) -> None:
    """Raise Text2SqlError for a run of the whole lifecycle without a training run.

    Dagster itself notices only at the first partitioned asset, after all the sampling.
    """
    graph = context.job_def.asset_layer.asset_graph
    partitioned = any(graph.get(key).partitions_def for key in assets_of(context))
    if run := training_run_of(context):
        require_run_name(run)
    elif partitioned:
        raise Text2SqlError(
            "This run has no training run: choose one as the partition, or give the tag "
            f"{PARTITION_TAG}; text2sql train NAME adds a new one and starts it."
        )
