"""Adding and naming partitions: ``python -m pipelines.partitions NAME`` adds a training run."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import dagster as dg

from assets.partitions import TIME_ZONE, TRAINING_RUN
from text2sql.errors import Text2SqlError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def add_training_run(instance: dg.DagsterInstance, name: str) -> None:
    """Make a training run known; one that is known already stays."""
    if not NAME.fullmatch(name):
        raise Text2SqlError(
            f"'{name}' cannot name a training run: use up to 64 letters, digits, '.', '_' or '-', "
            "a letter or digit first."
        )
    instance.add_dynamic_partitions(TRAINING_RUN, [name])


def today() -> str:
    """Return today's key of the daily partitions."""
    return datetime.now(ZoneInfo(TIME_ZONE)).date().isoformat()


def main(names: list[str]) -> None:
    """Add the named training runs."""
    from pipelines.home import open_instance

    with open_instance() as instance:
        for name in names:
            add_training_run(instance, name)
            print(f"training run {name} is there")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
