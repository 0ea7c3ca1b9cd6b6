"""Old runs: what Dagster remembers of them is taken away; what they made stays.

A run stays for as long as it is the last that made something: Dagster knows from its events that a
training run or a day is there, and which version it has.
"""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster import DagsterEventType
from pydantic import Field

from text2sql.common.counting import counted

MATERIALIZED = DagsterEventType.ASSET_MATERIALIZATION
PAGE = 500


class RetentionConfig(dg.Config):
    """Which runs are old."""

    days: int = Field(
        default=90, ge=1, le=36_500, description="Finished runs are kept for so many days."
    )
    dry_run: bool = Field(default=False, description="Only say what would be removed.")


@dg.op
def remove_runs(context: dg.OpExecutionContext, config: RetentionConfig) -> None:
    """Remove the runs that ended long ago and made nothing that is still the latest."""
    before = datetime.now(UTC) - timedelta(days=config.days)
    found = old_runs(context.instance, before)
    for run_id in found if not config.dry_run else ():
        remove_run(context.instance, run_id)
    done = "Would be removed" if config.dry_run else "Removed"
    context.log.info(f"{done}: {counted(len(found), 'run')} that ended before {before:%Y-%m-%d}.")


@dg.job(
    description="Remove what Dagster remembers of runs that ended long ago; what they made stays.",
    tags={"text2sql/exclusive": "remove_old_runs"},
)
def remove_old_runs() -> None:
    """Remove old runs."""
    remove_runs()


def old_runs(instance: dg.DagsterInstance, before: datetime) -> list[str]:
    """Return the ids of the finished runs that no materialization in force comes from."""
    finished = [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.CANCELED,
    ]
    wanted = dg.RunsFilter(statuses=finished, updated_before=before)
    runs = [record.dagster_run.run_id for record in instance.get_run_records(wanted)]
    needed = runs_in_force(instance) if runs else set()
    return [run_id for run_id in runs if run_id not in needed]


def runs_in_force(instance: dg.DagsterInstance) -> set[str]:
    """Return the runs that last made an asset, or a partition of one."""
    found: set[str] = set()
    for key in instance.all_asset_keys():
        latest = instance.get_latest_materialization_event(key)
        found |= {latest.run_id} if latest else set()
        storage = instance.event_log_storage
        ids = list(storage.get_latest_storage_id_by_partition(key, MATERIALIZED).values())
        for start in range(0, len(ids), PAGE):
            wanted = dg.AssetRecordsFilter(asset_key=key, storage_ids=ids[start : start + PAGE])
            page = instance.fetch_materializations(wanted, limit=PAGE)
            found |= {record.run_id for record in page.records}
    return found


def remove_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove a run, its events, its output and the small values that its steps passed on."""
    from dagster._core.storage.event_log import SqliteEventLogStorage

    instance.delete_run(run_id)
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        for end in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + end).unlink(missing_ok=True)
    shutil.rmtree(Path(instance.storage_directory()) / run_id, ignore_errors=True)
