"""Dagster's web interface on the project's state: what its buttons do, through its own API."""

from pathlib import Path

import pytest

from pipelines.home import open_instance
from pipelines.partitions import add_training_run
from tests.support.interface import Interface
from tests.support.lifecycle_tools import CORPUS, answering, processes_below
from tests.support.waiting import wait_until
from text2sql.cli.doctor import machine
from text2sql.cli.doctor.finding import State


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An artifact root of its own, with a training run to choose."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    with open_instance() as instance:
        add_training_run(instance, "demo")
    return tmp_path / "root"


def is_worker(pid: int) -> bool:
    """Say whether a process belongs to a run: a step or one of its sandbox's workers."""
    command = Path(f"/proc/{pid}/cmdline").read_text()
    return "forkserver" in command or "-I" in command.split("\0")


@pytest.mark.slow
def test_launched_and_cancelled_from_the_interface(root, tmp_path):
    interface = Interface(tmp_path / "ui.log")
    try:
        assert wait_until(interface.repositories, 240), (tmp_path / "ui.log").read_text()
        (repository,) = interface.repositories()
        assert {job["name"] for job in repository["jobs"]} >= {"lifecycle", "daily_answers"}
        found = machine._port(interface.port, "Dagster's UI")
        assert found.state is State.OK and "Dagster's UI runs at" in found.found
        assert "will not be used" not in (tmp_path / "ui.log").read_text()
        names = {one["name"] for one in repository["schedules"]}
        assert names == {"daily_answers_schedule", "remove_old_runs_schedule"}
        with answering(root, 0.5, seconds=0.2) as server:
            config = {"ops": CORPUS, "resources": {"policy": {"config": {"base": server.url}}}}
            run = interface.launch("lifecycle", "demo", config)
            assert wait_until(lambda: len(server.requests) > 4, 180), interface.status(run)
            workers = {pid for pid in processes_below(root) if is_worker(pid)}
            assert len(workers) > 2
            assert interface.terminate(run) == "TerminateRunSuccess"
            assert wait_until(lambda: interface.status(run) == "CANCELED")
            assert wait_until(lambda: not workers & set(processes_below(root)), 30)
    finally:
        interface.stop()
    assert wait_until(lambda: not processes_below(root), 30)
