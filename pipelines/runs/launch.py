"""Starting a run from a command, as the web interface does, and following it to its end.

The run is launched through the instance on a code server of the command's own, so it has its
origin: it stands in the timeline and in the job's history, and can be cancelled and re-executed
there. The server and everything below it end with the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import dagster as dg
import yaml

from assets.common.partitions import PARTITION_TAG
from pipelines.runs.progress import RunProgress, Stage
from pipelines.runs.records import disk_full, free_pools, mark_command
from text2sql.common.checkout import CHECKOUT
from text2sql.common.files import write_whole
from text2sql.common.processes import GuardedProcess, last_lines
from text2sql.errors import Text2SqlError

MODULE, REPOSITORY = "pipelines.definitions", "__repository__"
"""The code location, as in workspace.yaml, and Dagster's name for the definitions in it."""

ASSETS = "__ASSET_JOB"
"""Dagster's job for a selection of assets."""

POLL_SECONDS = 0.5
CANCEL_SECONDS = 150.0
"""What a run is given to end by itself: a trainer may take two minutes to save its state."""

_NO_QUEUE = {"module": "dagster.core.run_coordinator", "class": "DefaultRunCoordinator"}
_DAGSTER_GRAPHQL = """
import os, sys, time
from dagster_graphql.cli import main
while not os.path.exists(sys.argv[1]):  # imported while the code server loads
    time.sleep(0.05)
del sys.argv[1]
main()
"""
_OUR_ERROR = f"{Text2SqlError.__module__}.{Text2SqlError.__name__}: "
_LAUNCH = """
mutation($run: ExecutionParams!) { launchRun(executionParams: $run) {
  ... on LaunchRunSuccess { run { runId } }
  ... on RunConfigValidationInvalid { errors { message } }
  ... on Error { message }
} }
"""


class CommandRuns:
    """Runs of one command, on a code server that ends with it; a context manager.

    Dagster's output goes to ``log``.
    """

    def __init__(self, instance: dg.DagsterInstance, log: Path) -> None:
        """Start the code server; it loads the definitions while the command goes on."""
        self._instance, self._log = instance, log
        self._folder = tempfile.TemporaryDirectory(prefix="text2sql-")  # socket paths are short
        self._socket = Path(self._folder.name) / "code"
        server = ["-m", "dagster", "api", "grpc", "-m", MODULE, "-d", str(CHECKOUT)]
        server += ["--socket", str(self._socket), "--location-name", MODULE]
        self._server = GuardedProcess([sys.executable, *server], log, os.environ)

    def __enter__(self) -> CommandRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.stop()
        self._folder.cleanup()

    def run(
        self,
        job: str,
        partition: str,
        config: Mapping[str, Any],
        assets: Sequence[dg.AssetKey] = (),
        on_stage: Callable[[Stage], None] = lambda stage: None,
        on_tick: Callable[[RunProgress], None] = lambda progress: None,
    ) -> RunProgress:
        """Launch a job, or some assets, and follow the run to its end.

        ``on_stage`` gets each finished asset, ``on_tick`` all that is known, about twice a second.
        Raises Text2SqlError with the reason if the run fails or is cancelled in the web interface.
        A KeyboardInterrupt, and an OSError of ``on_stage`` or ``on_tick``, cancel the run.
        """
        progress = RunProgress(self.launch(job, partition, config, assets))
        status = None
        try:
            while status is None:
                status = self._ended(progress.run_id)
                progress.read(self._instance, on_stage)
                on_tick(progress)
                time.sleep(0 if status else POLL_SECONDS)
        except (KeyboardInterrupt, OSError):  # or the reader of the output is gone
            self._cancel(progress.run_id)
            raise
        free_pools(self._instance)
        if status is dg.DagsterRunStatus.CANCELED:
            raise Text2SqlError("The run was cancelled in Dagster: start it again to go on.")
        if status is not dg.DagsterRunStatus.SUCCESS:
            raise Text2SqlError(self._about(progress.reason()))
        return progress

    def launch(
        self,
        job: str,
        partition: str,
        config: Mapping[str, Any],
        assets: Sequence[dg.AssetKey] = (),
    ) -> str:
        """Launch a run through Dagster's own GraphQL, as its web interface does; return its id."""
        from pipelines.definitions import defs

        own = {} if assets else defs.resolve_job_def(job).run_tags
        tags = dict(own) | ({PARTITION_TAG: partition} if partition else {})
        selector: dict[str, Any] = {"repositoryLocationName": MODULE, "repositoryName": REPOSITORY}
        selector |= {"pipelineName": job}
        if assets:
            selector["assetSelection"] = [{"path": key.path} for key in assets]
        run = {"selector": selector, "runConfigData": dict(config), "mode": "default"}
        run["executionMetadata"] = {"tags": [{"key": k, "value": v} for k, v in tags.items()]}
        variables = json.dumps({"run": run}, default=str)
        answer = Path(self._folder.name) / "answer.json"
        answer.unlink(missing_ok=True)
        options = ["-w", self._workspace(), "-t", _LAUNCH, "-v", variables, "-o", str(answer)]
        home = {"DAGSTER_HOME": str(command_home(Path(os.environ["DAGSTER_HOME"])))}
        command = [sys.executable, "-c", _DAGSTER_GRAPHQL, str(self._socket), *options]
        stopped, status = None, None
        with GuardedProcess(command, self._log, os.environ | home) as launching:
            while status is None and not (stopped and not self._socket.exists()):
                try:
                    status = launching.wait(0.1)
                    if self._server.wait(0) is not None:
                        break
                except KeyboardInterrupt as signal:  # the run may have begun: learn its id first
                    stopped = signal
        if stopped and not answer.is_file():
            raise stopped
        run_id = self._launched(answer)
        mark_command(self._instance, run_id)
        if stopped:
            self._cancel(run_id)
            raise stopped
        return run_id

    def _launched(self, answer: Path) -> str:
        """Return the id of the run that was launched; raise Text2SqlError if it was refused."""
        if not answer.is_file():
            raise Text2SqlError(self._not_begun())
        found = json.loads(answer.read_text(encoding="utf-8"))
        result = (found.get("data") or {}).get("launchRun") or {}
        if "run" in result:
            return str(result["run"]["runId"])
        (first, *_) = result.get("errors") or found.get("errors") or [result]
        raise Text2SqlError(self._about(f"Dagster refused the run: {first.get('message')}"))

    def _workspace(self) -> str:
        """Return a workspace file that names the code server."""
        server = {"host": "localhost", "socket": str(self._socket), "location_name": MODULE}
        file = Path(self._folder.name) / "workspace.yaml"
        return str(write_whole(file, yaml.safe_dump({"load_from": [{"grpc_server": server}]})))

    def _ended(self, run_id: str) -> dg.DagsterRunStatus | None:
        """Return a run's status if it has ended, which it has without its code server, too."""
        gone = self._server.wait(0) is not None
        run = self._instance.get_run_by_id(run_id)
        if gone and run and not run.is_finished:
            self._instance.report_run_failed(run, "The code server of this run is gone.")
            return dg.DagsterRunStatus.FAILURE
        if run is None:  # somebody deleted it
            return dg.DagsterRunStatus.CANCELED
        return run.status if run.is_finished else None

    def _cancel(self, run_id: str) -> None:
        """Cancel a run as the web interface does; what does not end in time is killed."""
        with contextlib.suppress(dg.DagsterError):  # its server is gone: so is the run
            self._instance.run_launcher.terminate(run_id)
        deadline = time.monotonic() + CANCEL_SECONDS
        while self._ended(run_id) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        self._server.stop()
        run = self._instance.get_run_by_id(run_id)
        if run and not run.is_finished:
            self._instance.report_run_canceled(run)
        free_pools(self._instance)

    def _about(self, reason: str) -> str:
        """Return why a run did not succeed, whether the disk is full, and where the log is."""
        return " ".join(
            filter(None, (reason, disk_full(reason, self._log), f"Dagster's log is {self._log}."))
        )

    def _not_begun(self) -> str:
        """Return why there is no run: the project's own error, else the log's last line."""
        lines = last_lines(self._log, 20_000).splitlines() or ["it printed nothing"]
        ours = [line.partition("Error: ")[2] for line in lines if _OUR_ERROR in line]
        last = (ours or lines)[-1].strip().rstrip(".")
        return self._about(f"Dagster could not begin the run: {last}.")


def command_home(home: Path) -> Path:
    """Make Dagster's home as commands see it: the same records, and runs begin at once.

    In the queue they would wait for a daemon, and none may be running.
    """
    config = yaml.safe_load((home / "dagster.yaml").read_text(encoding="utf-8"))
    config.get("concurrency", {}).pop("runs", None)
    config |= {"run_coordinator": _NO_QUEUE}
    own = home / "commands"
    own.mkdir(exist_ok=True)
    for name in ("history", "schedules", "storage"):
        (home / name).mkdir(exist_ok=True)
        if not (own / name).is_symlink():
            with contextlib.suppress(FileExistsError):  # another command was faster
                (own / name).symlink_to(Path("..") / name)
    write_whole(own / "dagster.yaml", yaml.safe_dump(config))
    return own
