"""``python -m pipelines.pools``: how many steps may use the GPUs, and how many may sample, at once.

Dagster keeps the limits in its storage, for all runs together. A pool without a limit gets the
default of dagster.yaml, which is 1, when a step first asks; but two steps that first ask at the
same moment may each get a slot. So both pools are set before anything runs.
"""

from __future__ import annotations

import os
import sys

import dagster as dg

from assets.common.pools import GPU_POOL, sampling_pool
from text2sql.errors import Text2SqlError

SAMPLING_VARIABLE = "TEXT2SQL_SAMPLING_SLOTS"


def set_pools(instance: dg.DagsterInstance) -> None:
    """Let one step use the GPUs, and ``TEXT2SQL_SAMPLING_SLOTS`` steps sample, or one for each CPU.

    An existing limit stays unless the variable is set, so that it can be changed in the web
    interface (Deployment > Concurrency). If sampling uses the GPUs' pool, the variable sets that
    pool's limit. Raises Text2SqlError if it is not a whole number from 1 to 1000.
    """
    given, sampling = sampling_slots(), sampling_pool()
    current = instance.event_log_storage.get_pool_limits()
    chosen = {pool.name for pool in current if not pool.from_default}
    defaults = {sampling: os.cpu_count() or 1} | {GPU_POOL: 1}
    limits = {pool: slots for pool, slots in defaults.items() if pool not in chosen}
    if given:
        limits[sampling] = given
    for pool, slots in limits.items():
        instance.event_log_storage.set_concurrency_slots(pool, slots)


def sampling_slots() -> int | None:
    """Return ``TEXT2SQL_SAMPLING_SLOTS``, or None if it is not set."""
    if not (text := os.environ.get(SAMPLING_VARIABLE)):
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1000):
        raise Text2SqlError(
            f"{SAMPLING_VARIABLE} is {text!r}: give the number of steps that may sample at once, "
            "from 1 to 1000."
        )
    return int(text)


def main() -> None:
    """Set the pools of the instance in ``DAGSTER_HOME``; a deployment does this once."""
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
