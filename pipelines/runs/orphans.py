"""Runs whose process was killed: nothing else would ever say that they have ended."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import dagster as dg

OWNER_TAG = "text2sql/owner"
"""Names the machine and the process that executes a run from the command line."""

PROCESS_TAG = "text2sql/process"
"""The same of a run that nobody launched or follows, such as ``dagster asset materialize``'s: its
own process puts the tag on it."""

HOST_TAG = "text2sql/host"
"""Names the machine that a run was launched on."""

SERVER_TAG = "dagster/grpc_info"
"""Dagster's own: the code server that a run was launched on, which outlives its runs."""


def owner() -> str:
    """Return what identifies this process: machine, process id and its start time."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def note_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Note on a run that this process executes it, where nobody else answers for its end."""
    if not {OWNER_TAG, HOST_TAG} & set(run.tags):
        instance.add_run_tags(run.run_id, {PROCESS_TAG: owner()})


def end_orphaned_runs(instance: dg.DagsterInstance) -> None:
    """Mark the runs as failed whose process was killed, and free what they held.

    They would count as running for ever and keep their places in the queue and in the pools.
    """
    unfinished = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
    for run in instance.get_runs(dg.RunsFilter(statuses=unfinished)):
        if is_orphan(run):
            instance.report_run_failed(run, "The process that executed this run is gone.")
    free_pools(instance)


def free_pools(instance: dg.DagsterInstance) -> None:
    """Free what ended runs still hold of the pools: the next run would wait for it for ever.

    A step that had to be killed does not give its place back. Dagster's daemon sees to it, but
    the command line works without one.
    """
    storage = instance.event_log_storage
    for run_id in storage.get_concurrency_run_ids():
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)


def is_orphan(run: dg.DagsterRun) -> bool:
    """Say whether the process that executes a run is known to be gone.

    One that the command line executes names a process. One that was launched names its code
    server, which notices the death of its runs itself: only together with it are they lost.
    """
    if tag := run.tags.get(OWNER_TAG) or run.tags.get(PROCESS_TAG):
        host, pid, started = tag.split(":")
        return host == socket.gethostname() and _started(int(pid)) != started
    server = json.loads(run.tags.get(SERVER_TAG, "{}"))
    here = run.tags.get(HOST_TAG) == socket.gethostname()
    return here and "socket" in server and not _listens(server["socket"])


def _started(pid: int) -> str:
    """Return a process's start time in clock ticks, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _listens(path: str) -> bool:
    """Say whether a server listens on a Unix socket of this machine; a busy one does."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True
        return True
