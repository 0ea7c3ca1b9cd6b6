"""A worker process of the sandbox: runs one job at a time until its parent is gone.

Imports nothing outside the standard library, so that it starts in some 50 ms.
"""

from __future__ import annotations

import _thread
import os
import resource
import signal
import socket
import time
import traceback

from text2sql.sandbox.channel import READY, UNUSABLE, Channel
from text2sql.sandbox.connection import DatabaseCache, UnusableDatabase
from text2sql.sandbox.execution import Job, run_job
from text2sql.sandbox.results import QueryResult, Status


def main(descriptor: int, parent: int) -> None:
    """Serve jobs from a socket; ends when the parent process or the socket is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _thread.start_new_thread(_end_with, (parent,))
    channel = Channel(socket.socket(fileno=descriptor))
    channel.send(READY)
    databases = DatabaseCache()
    memory_mb = 0
    while True:
        try:
            job = Job(*channel.receive())
        except (EOFError, OSError):
            return
        if job.memory_mb != memory_mb:
            memory_mb = job.memory_mb
            _limit_memory(memory_mb)
        _answer(channel, job, databases)


def _end_with(parent: int) -> None:
    """End this process soon after its parent, whatever SQLite is busy with.

    PR_SET_PDEATHSIG would fire when the thread that started the worker ends.
    """
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _limit_memory(megabytes: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = megabytes << 20
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _answer(channel: Channel, job: Job, databases: DatabaseCache) -> None:
    try:
        result = run_job(job, databases)
    except UnusableDatabase as error:
        channel.send((UNUSABLE, str(error)))
        return
    except Exception:  # noqa: BLE001 - the process boundary: the error goes to the parent whole
        result = QueryResult(Status.INFRASTRUCTURE, error=traceback.format_exc())
    try:
        channel.send(_message(result))
    except MemoryError:
        text = f"the result needed more than {job.memory_mb} MB of memory"
        channel.send(_message(QueryResult(Status.TOO_LARGE, error=text)))


def _message(result: QueryResult) -> tuple[object, ...]:
    return (result.status.value, *list(vars(result).values())[1:])
