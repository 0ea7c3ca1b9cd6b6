"""Dagster's web interface on the project's state: what its buttons do, through its own API."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from lifecycle_tools import CORPUS, answering, processes_below, wait_until

from pipelines.home import open_instance
from pipelines.partitions import add_training_run

REPO = Path(__file__).resolve().parent.parent
JOBS = "{repositoriesOrError {... on RepositoryConnection {nodes {jobs {name} schedules {name}}}}}"
LAUNCH = """mutation($run: ExecutionParams!) {launchRun(executionParams: $run) {
  ... on LaunchRunSuccess {run {runId}}
  ... on RunConfigValidationInvalid {errors {message}}
  ... on PythonError {message}}}"""
STATUS = "query($run: ID!) {runOrError(runId: $run) {... on Run {status}}}"
TERMINATE = "mutation($run: String!) {terminateRun(runId: $run) {__typename}}"


class Interface:
    """The web interface of an artifact root, as a process of its own."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "pipelines.ui", "--port", str(self.port)]
        with log.open("w") as output:
            self.process = subprocess.Popen(command, cwd=REPO, stdout=output, stderr=output)

    def ask(self, query: str, **variables) -> dict:
        """Send a GraphQL query."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    def repositories(self) -> list[dict]:
        """Return what is loaded; nothing while it still starts."""
        try:
            return self.ask(JOBS)["repositoriesOrError"].get("nodes", [])
        except (urllib.error.URLError, ConnectionError):
            return []

    def launch(self, job: str, partition: str, config: dict) -> str:
        """Launch a run as the launchpad does; return its id."""
        selector = {
            "repositoryLocationName": "pipelines.definitions",
            "repositoryName": "__repository__",
            "pipelineName": job,
        }
        tags = [{"key": "dagster/partition", "value": partition}]
        run = {"selector": selector, "runConfigData": config, "mode": "default"}
        run |= {"executionMetadata": {"tags": tags}}
        return self.ask(LAUNCH, run=run)["launchRun"]["run"]["runId"]

    def status(self, run: str) -> str:
        """Return a run's status."""
        return self.ask(STATUS, run=run)["runOrError"]["status"]


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
        assert wait_until(interface.repositories, 90), (tmp_path / "ui.log").read_text()
        (repository,) = interface.repositories()
        assert {job["name"] for job in repository["jobs"]} >= {"lifecycle", "daily_answers"}
        assert [one["name"] for one in repository["schedules"]] == ["daily_answers_schedule"]
        with answering(root, 0.5, seconds=0.2) as server:
            config = {"ops": CORPUS, "resources": {"policy": {"config": {"base": server.url}}}}
            run = interface.launch("lifecycle", "demo", config)
            assert wait_until(lambda: len(server.requests) > 4, 180), interface.status(run)
            workers = {pid for pid in processes_below(root) if is_worker(pid)}
            assert len(workers) > 2
            assert interface.ask(TERMINATE, run=run)["terminateRun"]["__typename"] == (
                "TerminateRunSuccess"
            )
            assert wait_until(lambda: interface.status(run) == "CANCELED")
            assert wait_until(lambda: not workers & set(processes_below(root)), 30)
    finally:
        interface.process.send_signal(signal.SIGTERM)
        interface.process.wait(60)
    assert wait_until(lambda: not processes_below(root), 30)
