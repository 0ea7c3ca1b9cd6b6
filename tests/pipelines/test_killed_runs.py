"""``kill -9`` of any process of a run: nothing of it is left, the run is failed, and it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dagster as dg
import psutil
import pytest
import yaml

from pipelines.home import open_instance
from pipelines.jobs import RETRIED
from pipelines.partitions import add_training_run
from tests.support.interface import Interface
from tests.support.lifecycle_tools import CORPUS, answering, commands, processes_below
from tests.support.scripted_server import ScriptedServer
from tests.support.waiting import wait_until

REPO = Path(__file__).resolve().parents[2]
GONE_SECONDS = 20


def config_for(server: ScriptedServer) -> dict:
    """Return the run config of a lifecycle that samples slowly."""
    return {"ops": CORPUS, "resources": {"policy": {"config": {"base": server.url}}}}


def process(root: Path, kind: str) -> psutil.Process:
    """Return a process of the run: its worker, the server that forks its steps, or a step."""
    found = {pid: psutil.Process(pid) for pid in processes_below(root)}
    lines = {pid: " ".join(one.cmdline()) for pid, one in found.items()}
    forks = [pid for pid, line in lines.items() if "forkserver" in line]
    (fork_server,) = [pid for pid in forks if found[pid].ppid() not in forks]
    places = {
        "fork server": fork_server,
        "step": next(pid for pid in forks if found[pid].ppid() == fork_server),
        "worker": found[fork_server].ppid(),
        "code server": found[found[fork_server].ppid()].ppid(),
    }
    return found[places[kind]]


@contextmanager
def sampling_command(
    root: Path, folder: Path, server: ScriptedServer
) -> Iterator[subprocess.Popen]:
    """Run the lifecycle from the command line until it samples."""
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config_for(server)))
    command = [sys.executable, "-m", "pipelines.lifecycle", "--config", str(file)]
    with subprocess.Popen(command, cwd=REPO, stderr=subprocess.PIPE, text=True) as running:
        try:
            asked = wait_until(lambda: len(server.requests) > 4 or running.poll() is not None, 300)
            assert asked and running.poll() is None, running.stderr.read()
            yield running
        finally:
            running.kill()


def left_below(root: Path) -> list[str]:
    """Return what is left of a run after the time in which it must end."""
    wait_until(lambda: not processes_below(root), GONE_SECONDS)
    return commands(processes_below(root))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["worker", "code server"])
def test_a_run_of_a_command_ends_with_its_worker_or_code_server(root, tmp_path, kind):
    with answering(root, 0.5, seconds=0.5) as server:
        with sampling_command(root, tmp_path, server) as running:
            process(root, kind).kill()
            _, said = running.communicate(timeout=120)
        assert running.returncode == 1
        assert said.startswith("error: ") and said.count("\n") == 1, said
        assert not left_below(root)
    with open_instance() as instance:
        (run,) = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.FAILURE
        assert instance.event_log_storage.get_concurrency_info("sampling").active_slot_count == 0


@pytest.mark.slow
def test_a_killed_step_or_fork_server_leaves_nothing_and_the_step_is_repeated(root, tmp_path):
    with answering(root, 0.5, seconds=0.5) as server:
        with sampling_command(root, tmp_path, server) as running:
            for kind in ("step", "fork server"):
                killed = process(root, kind)
                below = {killed, *killed.children(recursive=True)}
                killed.kill()
                assert wait_until(partial(all_gone, below), GONE_SECONDS), below
                asked = len(server.requests)
                assert wait_until(partial(asks_on, server, asked), 120)
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=120)
        assert running.returncode == 143
        assert not left_below(root)


def all_gone(processes: set[psutil.Process]) -> bool:
    """Return whether none of these processes runs; a zombie does not."""
    return not any(one.is_running() and one.status() != "zombie" for one in processes)


def asks_on(server: ScriptedServer, asked: int) -> bool:
    """Return whether a server has had more requests since."""
    return len(server.requests) > asked + 4


@pytest.mark.slow
def test_runs_of_the_interface_end_with_their_worker_and_after_a_reboot(root, tmp_path):
    """One run's worker is killed; of another everything, as when the machine stops."""
    with open_instance() as instance:
        add_training_run(instance, "demo")
    interface = Interface(tmp_path / "ui.log")
    with answering(root, 0.5, seconds=0.5) as server:
        try:
            assert wait_until(interface.repositories, 240), (tmp_path / "ui.log").read_text()
            first = interface.launch("lifecycle", "demo", config_for(server), **RETRIED)
            assert wait_until(lambda: len(server.requests) > 4, 240), interface.status(first)
            worker = process(root, "worker")
            below = {worker, *worker.children(recursive=True)}
            worker.kill()
            assert wait_until(partial(all_gone, below), GONE_SECONDS), below
            assert wait_until(lambda: interface.status(first) == "FAILURE", 60)
            # Its job has it repeated once: that is the run which the reboot ends.
            assert wait_until(lambda: latest().run_id != first, 120)
            assert wait_until(lambda: latest().status is dg.DagsterRunStatus.STARTED, 120)
        finally:
            for pid in processes_below(root):
                os.kill(pid, signal.SIGKILL)
            interface.process.wait(60)
        assert not left_below(root)
        second = latest()
        assert second.status is dg.DagsterRunStatus.STARTED
        interface = Interface(tmp_path / "again.log")
        try:
            assert wait_until(interface.repositories, 240)
            assert wait_until(partial(_failed, interface, second.run_id), 60)
        finally:
            interface.stop()


def latest() -> dg.DagsterRun:
    """Return the latest run; ``open_instance`` would fail a lost one itself."""
    with dg.DagsterInstance.get() as instance:
        return instance.get_runs(limit=1)[0]


def _failed(interface: Interface, run: str) -> bool:
    return interface.status(run) == "FAILURE"
