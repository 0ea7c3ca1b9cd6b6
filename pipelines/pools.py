"""``python -m pipelines.pools``: how many steps may use the GPUs, and how many may sample, at once.

Dagster keeps the limits in its storage, for all runs together. A pool without one has the default
limit of dagster.yaml, which is 1: right for GPU work, too little for sampling.
"""

from __future__ import annotations

import os
import sys

import dagster as dg

from assets.sampling import SAMPLING_POOL
from text2sql.errors import Text2SqlError

SAMPLING_VARIABLE = "TEXT2SQL_SAMPLING_SLOTS"


def set_pools(instance: dg.DagsterInstance) -> None:
    """Give the sampling pool its limit: ``TEXT2SQL_SAMPLING_SLOTS``, else one for each CPU.

    Where the variable is not set, a limit that is there stays, so that it can be changed in the
    web interface (Deployment > Concurrency). Raises Text2SqlError for a variable that is no
    whole number from 1 to 1000.
    """
    wanted = os.environ.get(SAMPLING_VARIABLE)
    storage = instance.event_log_storage
    if wanted:
        storage.set_concurrency_slots(SAMPLING_POOL, _slots(wanted))
    elif not _chosen(instance):
        storage.set_concurrency_slots(SAMPLING_POOL, os.cpu_count() or 1)


def _chosen(instance: dg.DagsterInstance) -> bool:
    """Say whether the sampling pool has a limit that is not just the default one."""
    limits = instance.event_log_storage.get_pool_limits()
    return any(pool.name == SAMPLING_POOL and not pool.from_default for pool in limits)


def _slots(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1000):
        raise Text2SqlError(
            f"{SAMPLING_VARIABLE} is {text!r}: give how many steps may sample at once, from 1 to "
            "1000."
        )
    return int(text)


def main() -> None:
    """Set the pools of the instance in ``DAGSTER_HOME``, as a deployment does once."""
    with dg.DagsterInstance.get() as instance:
        set_pools(instance)
        for pool in instance.event_log_storage.get_pool_limits():
            print(f"pool {pool.name}: {pool.limit} at once")


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
