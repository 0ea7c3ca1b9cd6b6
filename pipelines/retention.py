"""Removing what Dagster remembers of old runs; what they made stays.

A run stays for as long as it is the last that made something: its events tell Dagster that a
training run or a day exists, and which version it has.
"""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field

from assets.common.partitions import TIME_ZONE
from text2sql.common.counting import counted


class RetentionConfig(dg.Config):
    """Which runs are old."""

    days: int = Field(
        default=90, ge=1, le=36_500, description="Finished runs are kept for this many days."
    )
    dry_run: bool = Field(default=False, description="Only report what would be removed.")


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
    """Return the ids of the finished runs that made nothing which is still the latest."""
    finished = [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.CANCELED,
    ]
    old = dg.RunsFilter(statuses=finished, updated_before=before)
    runs = [record.dagster_run.run_id for record in instance.get_run_records(old)]
    needed = runs_in_force(instance) if runs else set()
    return [run_id for run_id in runs if run_id not in needed]


def runs_in_force(instance: dg.DagsterInstance) -> set[str]:
    """Return the runs that last made an asset, or a partition of one."""
    found: set[str] = set()
    for key in instance.all_asset_keys():
        for partition in (None, *instance.get_materialized_partitions(key)):
            only = dg.AssetRecordsFilter(key, [partition] if partition else None)
            latest = instance.fetch_materializations(only, limit=1).records
            found |= {record.run_id for record in latest}
    return found


def remove_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove a run, its events, its output and the small values that its steps passed on."""
    instance.delete_run(run_id)
    for end in ("", "-wal", "-shm"):  # SQLite storage keeps a run's events in a file of its own
        file = Path(instance.root_directory, "history", "runs", f"{run_id}.db{end}")
        file.unlink(missing_ok=True)
    shutil.rmtree(Path(instance.storage_directory()) / run_id, ignore_errors=True)


remove_old_runs_schedule = dg.ScheduleDefinition(
    name="remove_old_runs_schedule",
    job=remove_old_runs,
    cron_schedule="0 3 * * 0",
    execution_timezone=TIME_ZONE,
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Removes runs older than 90 days, on Sundays at three.",
)
