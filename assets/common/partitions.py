"""The two partitions of assets: by training run and by day."""

from __future__ import annotations

import os
import re
from zoneinfo import ZoneInfo

import dagster as dg

from text2sql.errors import Text2SqlError

TRAINING_RUN = "training_run"
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED = ("base", "champion")
"""Policies that a run can start from; no run may have such a name."""
ZONE_VARIABLE = "TEXT2SQL_TIME_ZONE"
training_runs = dg.DynamicPartitionsDefinition(name=TRAINING_RUN)
"""One key per training run; a person, a sensor or the demo adds it before the run starts."""

PARTITION_TAG = "dagster/partition"


def project_time_zone() -> str:
    """Return the time zone in which days begin and schedules tick: ``TEXT2SQL_TIME_ZONE``, or UTC.

    Raises Text2SqlError for an unknown name.
    """
    name = os.environ.get(ZONE_VARIABLE) or "UTC"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError) as error:
        raise Text2SqlError(
            f"{ZONE_VARIABLE} is {name!r}, which is not a time zone; use a name such "
            "as Europe/Berlin"
        ) from error


TIME_ZONE = project_time_zone()

days = dg.DailyPartitionsDefinition(start_date="2026-01-01", timezone=TIME_ZONE, end_offset=1)
"""One key per day; today's exists from midnight on, so that today can be answered."""


def training_run_of(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> str | None:
    """Return the training run that the Dagster run belongs to, if any."""
    return context.run.tags.get(PARTITION_TAG)


def require_run_name(name: str) -> None:
    """Raise Text2SqlError for a name that cannot be a folder's or that means another policy."""
    if not RUN_NAME.fullmatch(name):
        raise Text2SqlError(
            f"'{name}' cannot name a training run: use up to 64 letters, digits, '.', '_' or '-', "
            "a letter or digit first."
        )
    if name in RESERVED:
        raise Text2SqlError(
            f"'{name}' cannot name a training run: it stands for a policy to start from."
        )


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
