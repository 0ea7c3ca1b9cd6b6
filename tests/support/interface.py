"""Dagster's web interface of an artifact root, as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
JOBS = "{repositoriesOrError {... on RepositoryConnection {nodes {jobs {name} schedules {name}}}}}"
LAUNCH = """mutation($run: ExecutionParams!) {launchRun(executionParams: $run) {
  ... on LaunchRunSuccess {run {runId}}
  ... on RunConfigValidationInvalid {errors {message}}
  ... on PythonError {message}}}"""
STATUS = "query($run: ID!) {runOrError(runId: $run) {... on Run {status}}}"
TERMINATE = "mutation($run: String!) {terminateRun(runId: $run) {__typename}}"


class Interface:
    """``make ui`` on a free port; its output goes to ``log``, ``environment`` is added to ours."""

    def __init__(self, log: Path, environment: dict[str, str] | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "pipelines.ui", "--port", str(self.port)]
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command,
                cwd=REPO,
                env=os.environ | (environment or {}),
                stdout=output,
                stderr=output,
            )

    def stop(self) -> None:
        """End it as Ctrl-C's brother does, with all that it started."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

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

    def launch(self, job: str, partition: str, config: dict, **tags: str) -> str:
        """Launch a run as the launchpad does; return its id."""
        selector = {
            "repositoryLocationName": "pipelines.definitions",
            "repositoryName": "__repository__",
            "pipelineName": job,
        }
        every = {"dagster/partition": partition} | tags
        tags = [{"key": key, "value": value} for key, value in every.items()]
        run = {"selector": selector, "runConfigData": config, "mode": "default"}
        run |= {"executionMetadata": {"tags": tags}}
        return self.ask(LAUNCH, run=run)["launchRun"]["run"]["runId"]

    def status(self, run: str) -> str:
        """Return a run's status."""
        return self.ask(STATUS, run=run)["runOrError"]["status"]

    def terminate(self, run: str) -> str:
        """Cancel a run; return what Dagster says of that."""
        return self.ask(TERMINATE, run=run)["terminateRun"]["__typename"]
