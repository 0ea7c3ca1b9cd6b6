"""Which runs wait for each other, which go first, and which are repeated by themselves."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
    QueuedRunCoordinatorDaemon,
)

from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.programs.screen import Screen
from pipelines.runs.executors import choose_executor
from pipelines.runs.launch import Progress
from pipelines.runs.orphans import PROCESS_TAG, is_orphan
from pipelines.runs.telling_executor import telling_processes
from tests.support.waiting import wait_until

REPO = Path(__file__).resolve().parents[2]
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


def shown(instance: dg.DagsterInstance, run: dg.DagsterRun, capsys) -> str:
    """Follow a run as the command line does; return what is printed of its waits."""
    progress = Progress(run.run_id)
    for record in instance.get_records_for_run(run.run_id).records:
        progress.take(record.event_log_entry)
    screen = Screen(instance)
    screen.tick(progress)
    screen.tick(progress)
    return capsys.readouterr().out


def test_a_run_that_waits_for_a_busy_pool_says_who_holds_it(instance, tmp_path, capsys):
    busy = run_of(instance, job("training"), dg.DagsterRunStatus.STARTED, "first")
    storage, log = instance.event_log_storage, tmp_path / "run.log"
    assert storage.claim_concurrency_slot("gpu", busy.run_id, "grpo_policy").is_claimed
    held = f"waits for the pool gpu, held by run {busy.run_id[:8]} of other (first)"
    command = [
        sys.executable,
        "-m",
        "dagster",
        "job",
        "execute",
        "-f",
        "tests/pipelines/pool_job.py",
    ]
    with log.open("w") as output:
        waiting = subprocess.Popen(command, cwd=REPO, env=os.environ, stdout=output, stderr=output)
    try:
        assert wait_until(lambda: f"use_gpu {held}." in log.read_text() or waiting.poll(), 240)
        assert waiting.poll() is None, log.read_text()
        (run,) = instance.get_runs(dg.RunsFilter(job_name="one_use"))
        assert PROCESS_TAG in run.tags and not is_orphan(run)
        assert shown(instance, run, capsys) == f"  use_gpu             {held}\n"
        storage.free_concurrency_slots_for_run(busy.run_id)
        assert shown(instance, run, capsys) == ""  # it goes on by itself
        assert waiting.wait(240) == 0, log.read_text()
    finally:
        waiting.kill()
    assert log.read_text().count("waits for the pool") == 1
    assert choose_executor().executor_creation_fn is telling_processes.executor_creation_fn


def test_a_pool_that_lets_nobody_in_is_named(instance, capsys):
    instance.event_log_storage.set_concurrency_slots("gpu", 0)
    progress = Progress("a run", waits=[("grpo_policy", "gpu")])
    Screen(instance).tick(progress)
    assert "GRPO                waits for the pool gpu, whose limit is 0" in capsys.readouterr().out
