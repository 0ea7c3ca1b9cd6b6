"""``python -m pipelines.pools``: how many steps may use the GPUs, and how many may sample, at once.

Dagster keeps the limits in its storage, for all runs together. A pool without one gets the default
limit of dagster.yaml, which is 1, when a step first asks; two that first ask at the same moment may
each get a slot then, so both pools are set before anything runs.
"""

from __future__ import annotations

import os
import sys

import dagster as dg

from assets.common.pools import GPU_POOL, sampling_pool
from text2sql.errors import Text2SqlError

SAMPLING_VARIABLE = "TEXT2SQL_SAMPLING_SLOTS"


def set_pools(instance: dg.DagsterInstance) -> None:
    """Let one step use the GPUs, and ``TEXT2SQL_SAMPLING_SLOTS`` sample, else one for each CPU.

    A limit that is there stays, unless the variable is set, so that it can be changed in the web
    interface (Deployment > Concurrency); where sampling shares the GPUs, it sets how many use
    those. Raises Text2SqlError for a variable that is no whole
    number from 1 to 1000.
    """
    wanted, sampling = sampling_slots(), sampling_pool()
    defaults = {sampling: os.cpu_count() or 1} | {GPU_POOL: 1}
    limits = {pool: slots for pool, slots in defaults.items() if pool not in _chosen(instance)}
    if wanted:
        limits[sampling] = wanted
    for pool, slots in limits.items():
        instance.event_log_storage.set_concurrency_slots(pool, slots)


def _chosen(instance: dg.DagsterInstance) -> set[str]:
    """Return the pools that have a limit which is not just the default one."""
    limits = instance.event_log_storage.get_pool_limits()
    return {pool.name for pool in limits if not pool.from_default}


def sampling_slots() -> int | None:
    """Return what ``TEXT2SQL_SAMPLING_SLOTS`` says, None where it is not set."""
    if not (text := os.environ.get(SAMPLING_VARIABLE)):
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1000):
        raise Text2SqlError(
            f"{SAMPLING_VARIABLE} is {text!r}: give how many steps may sample at once, from 1 to "
            "1000."
        )
    return int(text)


def main() -> None:
    """Set the pools of the instance in ``DAGSTER_HOME``, as a deployment does once."""
    if not os.environ.get("DAGSTER_HOME"):
        raise Text2SqlError(
            "DAGSTER_HOME is not set: export DAGSTER_HOME=$(python -m pipelines.home) first."
        )
    with dg.DagsterInstance.get() as instance:
        set_pools(instance)
        for pool in sorted(instance.event_log_storage.get_pool_limits(), key=lambda p: p.name):
            print(f"pool {pool.name}: {pool.limit} at once")


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
