"""Adding partitions: ``python -m pipelines.partitions NAME`` adds a training run."""

from __future__ import annotations

import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import dagster as dg

from assets.common.partitions import TIME_ZONE, TRAINING_RUN, require_run_name
from text2sql.errors import Text2SqlError


def add_training_run(instance: dg.DagsterInstance, name: str) -> None:
    """Add a training run, unless it exists."""
    require_run_name(name)
    instance.add_dynamic_partitions(TRAINING_RUN, [name])


def today() -> str:
    """Return today's key of the daily partitions."""
    return datetime.now(ZoneInfo(TIME_ZONE)).date().isoformat()


def main(names: list[str]) -> None:
    """Add the named training runs."""
    if not names:
        raise Text2SqlError("Name the training runs to add: python -m pipelines.partitions NAME...")
    from pipelines.home import open_instance

    with open_instance() as instance:
        for name in names:
            add_training_run(instance, name)
            print(f"training run {name} exists")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
