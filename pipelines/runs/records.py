"""Dagster's records: their errors in a sentence, and runs whose process is gone."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
from pathlib import Path

import dagster as dg
import psutil
from sqlalchemy.exc import DBAPIError

from text2sql.common.artifacts import artifact_root, logs_folder
from text2sql.errors import InfrastructureError, Text2SqlError

COMMAND_TAG = "text2sql/command"
"""Names the process whose command started a run: the run ends with it. The run's own id is part of
it, because Dagster copies a run's tags to its re-executions, which no command owns."""

SERVER_TAG = ".dagster/grpc_info"
"""Dagster's own: the code server that a run was launched on."""

UNREACHABLE = "DagsterPostgresException"
"""What ``dagster_postgres``, which may not be installed, raises after its last attempt."""

_DISK_FULL = re.compile("no space left on device|(?:database or )?disk (?:is full|I/O error)", re.I)


def records_error(error: BaseException) -> Text2SqlError | None:
    """Return a sentence about an error of Dagster's database; None for any other error."""
    if type(error).__name__ == UNREACHABLE:
        return InfrastructureError(f"Dagster's database cannot be reached: {_words(error)}.")
    if not isinstance(error, DBAPIError):
        return None
    if isinstance(error.orig, sqlite3.Error):
        root = artifact_root()
        reason = f"Dagster's records below {root} cannot be written: {error.orig}."
        return Text2SqlError(f"{reason} {disk_full(reason, logs_folder(root))}".rstrip())
    return InfrastructureError(f"Dagster's database failed: {_words(error)}.")


def _words(error: BaseException) -> str:
    """Return the first line of the database's own message."""
    cause = error.__cause__ if type(error).__name__ == UNREACHABLE else error
    said = str(getattr(cause, "orig", None) or cause or error)
    return said.splitlines()[0].rstrip(".")


def disk_full(reason: str, place: Path) -> str:
    """Return a sentence about the disk of ``place`` if it is full, or ``reason`` says so."""
    free = shutil.disk_usage(place.parent).free / 1e6
    if free > 1 and not _DISK_FULL.search(reason):
        return ""
    return (
        f"The disk that holds {place.parent} has {free:,.0f} MB left: make room and run it again."
    )


def mark_command(instance: dg.DagsterInstance, run_id: str) -> None:
    """Note on a run that it ends with this process."""
    me = psutil.Process()
    mark = {"run": run_id, "host": socket.gethostname(), "pid": me.pid, "began": me.create_time()}
    instance.add_run_tags(run_id, {COMMAND_TAG: json.dumps(mark)})


def fail_lost_runs(instance: dg.DagsterInstance, local: bool) -> list[str]:
    """Fail the runs whose process is gone, free their pools, and return their ids.

    Nothing else would do so: a code server reports the death of its own runs, but not its own.
    ``local`` also judges runs that the web interface or the daemon launched, which is right only
    if they were launched on this machine.
    """
    in_progress = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
    in_progress += [dg.DagsterRunStatus.CANCELING]
    lost = []
    for run in instance.get_runs(dg.RunsFilter(statuses=in_progress)):
        if not is_lost(run, local):
            continue
        if run.status is dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run)
        else:
            instance.report_run_failed(run, "The process of this run is gone.")
        lost.append(run.run_id)
    free_pools(instance)
    return lost


def free_pools(instance: dg.DagsterInstance) -> None:
    """Free the pool slots of ended runs, as Dagster's daemon does where one runs.

    A step that was killed does not give its slot back, and the next run would wait forever.
    """
    storage = instance.event_log_storage
    for run_id in storage.get_concurrency_run_ids():
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)


def is_lost(run: dg.DagsterRun, local: bool = True) -> bool:
    """Return whether the process that a run depends on is known to be gone."""
    mark = json.loads(run.tags.get(COMMAND_TAG) or "{}")
    if mark.get("run") == run.run_id:
        return mark["host"] == socket.gethostname() and not _lives(mark["pid"], mark["began"])
    if run.status is dg.DagsterRunStatus.STARTING:  # a re-execution may still have the old server's
        return False
    server = json.loads(run.tags.get(SERVER_TAG) or "{}")
    return local and "socket" in server and not _listens(server["socket"])


def _lives(pid: int, began: float) -> bool:
    try:
        process = psutil.Process(pid)
        # The clock may have been set since, and a process id is not reused within a second.
        same = abs(process.create_time() - began) < 1
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _listens(path: str) -> bool:
    """Return whether a server listens on a Unix socket of this machine."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:  # it is busy, or belongs to somebody else
            return True
        return True


def on_one_machine() -> bool:
    """Return whether Dagster's records are in SQLite, so that all runs are on this machine."""
    import yaml

    config = yaml.safe_load((Path(os.environ["DAGSTER_HOME"]) / "dagster.yaml").read_text())
    return set((config or {}).get("storage") or {"sqlite": {}}) == {"sqlite"}
