"""Which runs wait for each other, which go first, and which are repeated by themselves."""

import dagster as dg
import pytest
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.programs.screen import Screen
from pipelines.runs.launch import CommandRuns
from text2sql.errors import Text2SqlError

LOCATION = RegisteredCodeLocationOrigin("pipelines.definitions")
ORIGIN = RemoteJobOrigin(RemoteRepositoryOrigin(LOCATION, "__repository__"), "other")


@pytest.fixture
def instance(root):
    """An instance as dagster.yaml describes it."""
    with open_instance() as opened:
        yield opened


@dg.job
def other():
    """A job of somebody else."""


def run_of(instance: dg.DagsterInstance, job: dg.JobDefinition, status, partition: str = ""):
    """Note a run of a job, with the tags that every run of it has."""
    tags = dict(job.run_tags) | ({"dagster/partition": partition} if partition else {})
    return instance.create_run_for_job(other, status=status, tags=tags, remote_job_origin=ORIGIN)


def job(name: str) -> dg.JobDefinition:
    return defs.resolve_job_def(name)


def chosen(instance: dg.DagsterInstance) -> list[str]:
    """Return the runs that the queue lets go now, in this order."""
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    config = instance.get_concurrency_config()
    found = daemon._get_runs_to_dequeue(instance, config, fixed_iteration_time=None)
    return [run.run_id for run in found]


def test_lifecycles_wait_for_each_other_and_answers_go_first(instance):
    queued = dg.DagsterRunStatus.QUEUED
    first = run_of(instance, job("lifecycle"), queued, "a")
    second = run_of(instance, job("lifecycle"), queued, "b")
    training = run_of(instance, job("training"), queued, "c")
    answers = run_of(instance, job("daily_answers"), queued, "2026-03-02")
    again = run_of(instance, job("daily_answers"), queued, "2026-03-02")
    tuesday = run_of(instance, job("daily_answers"), queued, "2026-03-03")
    assert chosen(instance) == [answers.run_id, tuesday.run_id, first.run_id]
    assert not {second.run_id, training.run_id, again.run_id} & set(chosen(instance))


def test_no_more_than_four_runs_go_at_once(instance):
    for _ in range(3):
        run_of(instance, other, dg.DagsterRunStatus.STARTED)
    waiting = [run_of(instance, other, dg.DagsterRunStatus.QUEUED) for _ in range(3)]
    assert chosen(instance) == [waiting[0].run_id]


def test_only_a_run_that_died_is_repeated_and_only_by_its_job(instance):
    died, failed = RunFailureReason.RUN_EXCEPTION, RunFailureReason.STEP_FAILURE
    repeated = {}
    for name in ("lifecycle", "daily_answers", "remove_old_runs"):
        run = run_of(instance, job(name), dg.DagsterRunStatus.FAILURE)
        repeated[name] = [
            auto_reexecution_should_retry_run(instance, run, reason) for reason in (died, failed)
        ]
    assert repeated == {
        "lifecycle": [True, False],
        "daily_answers": [True, False],
        "remove_old_runs": [False, False],
    }


def test_a_stage_that_waits_for_a_busy_pool_says_so_once(instance, tmp_path, capsys):
    busy = run_of(instance, job("training"), dg.DagsterRunStatus.STARTED, "first")
    storage, screen = instance.event_log_storage, Screen()
    assert storage.claim_concurrency_slot("sampling", busy.run_id, "x").is_claimed
    storage.set_concurrency_slots("sampling", 1)
    freed = []

    def tick(progress):
        screen.tick(progress)
        if progress.pools and not freed:
            freed.append(dict(progress.pools))
            storage.free_concurrency_slots_for_run(busy.run_id)

    with CommandRuns(instance, tmp_path / "log") as runs, pytest.raises(Text2SqlError):
        runs.run("daily_answers", "2026-03-02", {}, on_tick=tick)  # there is no champion
    assert freed == [{"report_answers": "sampling"}]
    assert capsys.readouterr().out.count("answers             waits for the pool sampling") == 1
