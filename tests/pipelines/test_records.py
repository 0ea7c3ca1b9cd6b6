"""Runs whose process is gone are failed; others, and those of other machines, are left alone."""

from __future__ import annotations

import json
import os
import socket

import dagster as dg
import psutil

from pipelines.home import open_instance
from pipelines.runs.records import COMMAND_TAG, SERVER_TAG, fail_lost_runs, mark_command
from pipelines.sensors import lost_runs

STARTED = dg.DagsterRunStatus.STARTED


@dg.job
def nothing():
    """A job without steps."""


def command_tag(run: str, **other: object) -> dict[str, str]:
    """Return the tag of a command that is this process."""
    me = psutil.Process()
    mark = {"run": run, "host": socket.gethostname(), "pid": me.pid, "began": me.create_time()}
    return {COMMAND_TAG: json.dumps(mark | other)}


def test_lost_runs_are_failed_and_others_are_left(root, tmp_path):
    alive, gone = tmp_path / "alive", tmp_path / "gone"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(alive))
    server.listen()
    tags = {
        "mine": command_tag("mine"),
        "killed": command_tag("killed", began=1.0),
        "elsewhere": command_tag("elsewhere", host="elsewhere", began=1.0),
        "repeated": command_tag("killed", began=1.0) | {SERVER_TAG: f'{{"socket": "{alive}"}}'},
        "launched": {SERVER_TAG: f'{{"socket": "{alive}"}}'},
        "server gone": {SERVER_TAG: f'{{"socket": "{gone}"}}'},
        "server on a port": {SERVER_TAG: '{"port": 4000}'},
        "unknown": {},
    }
    with server, open_instance() as instance:
        ids = {name: instance.create_run_for_job(nothing, status=STARTED).run_id for name in tags}
        for name, own in tags.items():
            tag = own.get(COMMAND_TAG)
            own = own | ({COMMAND_TAG: _with_id(tag, ids)} if tag else {})
            instance.add_run_tags(ids[name], own)
        storage = instance.event_log_storage
        storage.claim_concurrency_slot("gpu", ids["server gone"], "grpo_policy")
        assert set(fail_lost_runs(instance, local=False)) == {ids["killed"]}
        assert storage.get_concurrency_info("gpu").active_slot_count == 1
        context = dg.build_sensor_context(instance=instance)
        assert ids["server gone"] in lost_runs(context).skip_message
        status = {name: instance.get_run_by_id(run).status for name, run in ids.items()}
        assert storage.get_concurrency_info("gpu").active_slot_count == 0
        assert lost_runs(context).skip_message == "All runs have their process."
    ended = {name for name, found in status.items() if found is dg.DagsterRunStatus.FAILURE}
    assert ended == {"killed", "server gone"}


def _with_id(tag: str, ids: dict[str, str]) -> str:
    mark = json.loads(tag)
    return json.dumps(mark | {"run": ids[mark["run"]]})


def test_a_command_marks_its_run(root):
    with open_instance() as instance:
        run = instance.create_run_for_job(nothing, status=STARTED)
        mark_command(instance, run.run_id)
        assert fail_lost_runs(instance, local=True) == []
        mark = json.loads(instance.get_run_by_id(run.run_id).tags[COMMAND_TAG])
    assert (mark["run"], mark["pid"]) == (run.run_id, os.getpid())


def test_lost_runs_are_looked_for_by_default():
    assert lost_runs.default_status is dg.DefaultSensorStatus.RUNNING
    assert lost_runs.minimum_interval_seconds == 30
