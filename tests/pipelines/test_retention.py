"""Old runs go; a run that made something which is still the latest stays."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.retention import old_runs, remove_old_runs, remove_run

KEYS = dg.StaticPartitionsDefinition(["monday", "tuesday"])


@dg.asset
def whole():
    """An asset of one part."""


@dg.asset(partitions_def=KEYS)
def daily():
    """An asset of two."""


@dg.asset
def broken():
    """An asset that fails."""
    raise ValueError("no")


@pytest.fixture
def instance(root):
    """An instance with some runs: ``runs`` has their ids by what they are."""
    with open_instance() as opened:
        yield opened


def run(instance: dg.DagsterInstance, asset, key: str | None = None) -> str:
    """Materialize an asset; return the run's id."""
    return dg.materialize(
        [asset], instance=instance, partition_key=key, raise_on_error=False
    ).run_id


def test_runs_go_whose_results_were_replaced_and_failures(instance):
    first, failed = run(instance, whole), run(instance, broken)
    monday, again = run(instance, daily, "monday"), run(instance, daily, "monday")
    tuesday, last = run(instance, daily, "tuesday"), run(instance, whole)
    assert old_runs(instance, datetime.now(UTC) - timedelta(days=1)) == []
    found = old_runs(instance, datetime.now(UTC) + timedelta(days=1))
    assert set(found) == {first, failed, monday}
    shards = Path(instance.event_log_storage.path_for_shard(first)).parent
    assert len(list(shards.glob("*-*.db"))) == 6
    for run_id in found:
        remove_run(instance, run_id)
    assert {kept.run_id for kept in instance.get_runs()} == {again, tuesday, last}
    assert len(list(shards.glob("*-*.db"))) == 3
    assert instance.get_materialized_partitions(daily.key) == {"monday", "tuesday"}
    assert instance.get_latest_materialization_event(whole.key).run_id == last


def test_the_job_says_what_it_would_remove_and_removes_it(instance):
    first, last = run(instance, whole), run(instance, whole)
    for run_id in (first, last):
        _age(instance, run_id, days=100)
    config = {"ops": {"remove_runs": {"config": {"days": 90, "dry_run": True}}}}
    assert remove_old_runs.execute_in_process(instance=instance, run_config=config).success
    assert instance.get_run_by_id(first)
    assert remove_old_runs.execute_in_process(instance=instance).success
    assert not instance.get_run_by_id(first)
    assert instance.get_run_by_id(last)


def _age(instance: dg.DagsterInstance, run_id: str, days: int) -> None:
    """Let a run have ended so many days ago."""
    from dagster._core.storage.runs.schema import RunsTable

    then = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=days)
    with instance.run_storage.connect() as connection:
        connection.execute(
            RunsTable.update().where(RunsTable.c.run_id == run_id).values(update_timestamp=then)
        )


def test_schedule_is_off_and_weekly():
    schedule = defs.resolve_schedule_def("remove_old_runs_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert schedule.cron_schedule == "0 3 * * 0"
