"""What a run waits for while a pool has no room for its step: said once, in a line.

Nothing else of such a run moves, and training may hold the GPUs for days.
"""

from __future__ import annotations

import dagster as dg


def waited_pool(event: dg.DagsterEvent) -> str:
    """Return the pool that has no room for the step of this event; empty where it says no such.

    Dagster writes the event when a step asks first, and every few minutes from then on.
    """
    if event.event_type is not dg.DagsterEventType.ENGINE_EVENT or event.step_key is None:
        return ""
    pool = event.engine_event_data.metadata.get("pool")
    return str(pool.value) if isinstance(pool, dg.PoolMetadataValue) else ""


def stage_of(event: dg.DagsterEvent) -> str:
    """Return the name of the asset or op whose step an event is about, without its shard."""
    return str(event.step_key).partition(".")[0]


def who_holds(instance: dg.DagsterInstance, run_id: str, pool: str) -> str:
    """Say that a run waits for a pool and which other runs hold it.

    Empty where only steps of the run itself do, or where there is room by now: it moves.
    """
    info = instance.event_log_storage.get_concurrency_info(pool)
    if info.limit == 0:
        return f"waits for the pool {pool}, whose limit is 0: raise it to go on"
    others = sorted(info.active_run_ids - {run_id})
    if not others:
        return ""
    return (
        f"waits for the pool {pool}, held by {', '.join(_named(instance, run) for run in others)}"
    )


def _named(instance: dg.DagsterInstance, run_id: str) -> str:
    """Name a run as the web interface does, and the part that it makes."""
    run = instance.get_run_by_id(run_id)
    if run is None:
        return f"run {run_id[:8]}"
    part = run.tags.get("dagster/partition")
    job = "the assets" if run.job_name.startswith("__") else run.job_name
    return f"run {run_id[:8]} of {job}{f' ({part})' if part else ''}"


class PoolWaits:
    """Remembers what was said of a run, so that each stage's waiting is said once."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        """Ask this instance who holds a pool."""
        self._instance = instance
        self._said: set[tuple[str, str]] = set()

    def sentence(self, run_id: str, stage: str, pool: str) -> str:
        """Return what there is to say of a stage that waits for a pool; empty if nothing."""
        if (stage, pool) in self._said:
            return ""
        words = who_holds(self._instance, run_id, pool)
        if words:
            self._said.add((stage, pool))
        return words
