"""Dagster's home below the artifact root: made where missing, tidied before use."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import dagster as dg

from assets.sampling import SAMPLING_POOL
from resources.paths import CHECKOUT, artifact_root
from text2sql.errors import Text2SqlError

OWNER_TAG = "text2sql/owner"
"""Names the machine and the process that executes a run from the command line."""


def prepare_home(root: Path | None = None) -> Path:
    """Make ``<root>/dagster_home`` with this project's dagster.yaml; use it from now on.

    Sets ``DAGSTER_HOME`` for this process and its children. Raises Text2SqlError where the
    folder cannot be made.
    """
    home = (root or artifact_root()) / "dagster_home"
    link, target = home / "dagster.yaml", CHECKOUT / "dagster.yaml"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() or link.resolve() != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    except OSError as error:
        raise Text2SqlError(
            f"The artifact root cannot be written: {error.strerror} ({error.filename})."
        ) from error
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def open_instance(root: Path | None = None) -> dg.DagsterInstance:
    """Open Dagster's instance in the prepared home; use it in a ``with`` block."""
    prepare_home(root)
    instance = dg.DagsterInstance.get()
    instance.event_log_storage.set_concurrency_slots(SAMPLING_POOL, os.cpu_count() or 1)
    end_orphaned_runs(instance)
    return instance


def owner() -> str:
    """Return what identifies this process: machine, process id and its start time."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def end_orphaned_runs(instance: dg.DagsterInstance) -> None:
    """Mark the runs as failed whose process was killed, and free what they held.

    A run that the command line executes has no launcher to notice its death; it would count
    as running for ever and keep its place in the queue and in the pools.
    """
    unfinished = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
    for run in instance.get_runs(dg.RunsFilter(statuses=unfinished)):
        if _is_orphan(run.tags.get(OWNER_TAG)):
            instance.report_run_failed(run, "The process that executed this run is gone.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _is_orphan(tag: str | None) -> bool:
    host, pid, started = (tag or "::").split(":")
    return host == socket.gethostname() and _started(int(pid)) != started


def _started(pid: int) -> str:
    """Return a process's start time in clock ticks, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
