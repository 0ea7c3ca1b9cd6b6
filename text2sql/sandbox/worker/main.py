"""A worker process of the sandbox: runs texts one after the other until its parent is gone.

Imports only the standard library, so that it starts in some 50 ms.
"""

from __future__ import annotations

import _thread
import os
import resource
import signal
import socket
import time
import traceback
from typing import Any

from text2sql.sandbox.channel import READY, UNUSABLE, Channel, WorkerState
from text2sql.sandbox.results import QueryResult, Status
from text2sql.sandbox.worker.databases import DatabaseCache, UnusableDatabase
from text2sql.sandbox.worker.execution import Job, run_job
from text2sql.sandbox.worker.syscalls import deny_changes

_SEND_SECONDS = 0.02
"""Results are collected for this long, so that many short queries cost few messages."""

Reply = tuple[Any, ...]


def main(descriptor: int, page: int, parent: int) -> None:
    """Serve batches from a socket; ends when the parent process or the socket is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    channel, state = Channel(socket.socket(fileno=descriptor)), WorkerState(page)
    confined = deny_changes()
    try:
        _thread.start_new_thread(_end_with, (parent,))
    except RuntimeError:  # no more threads; the parent notices that this worker is not ready
        return
    channel.send((READY, confined))
    databases = DatabaseCache()
    memory_mb = number = 0
    while True:
        try:
            texts, settings = channel.receive()
        except (EOFError, OSError):
            return
        jobs = [Job(path, sql, *settings) for path, sql in texts]
        if jobs[0].memory_mb != memory_mb:
            memory_mb = jobs[0].memory_mb
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            size = memory_mb << 20
            soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        _serve(jobs, number, channel, state, databases)
        number += len(jobs)


def _end_with(parent: int) -> None:
    """End this process soon after its parent, whatever SQLite is busy with.

    PR_SET_PDEATHSIG would also kill it when the thread that started it ends.
    """
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _serve(
    jobs: list[Job], number: int, channel: Channel, state: WorkerState, databases: DatabaseCache
) -> None:
    """Run a batch and send the replies in order, several in one message."""
    replies: list[Reply] = []
    sent = time.monotonic()
    for position, job in enumerate(jobs):
        state.start(number + position)
        replies.append(_answer(job, databases, state))
        if position == len(jobs) - 1 or time.monotonic() - sent > _SEND_SECONDS:
            _send(replies, channel, job.memory_mb)
            replies = []
            sent = time.monotonic()


def _answer(job: Job, databases: DatabaseCache, state: WorkerState) -> Reply:
    started = time.monotonic()
    try:
        result = run_job(job, databases, state)
    except UnusableDatabase as error:
        return UNUSABLE, str(error)
    except Exception:  # noqa: BLE001 - the process boundary: the parent gets the whole error
        result = QueryResult(Status.INFRASTRUCTURE, error=traceback.format_exc())
    return _reply(result, time.monotonic() - started)


def _send(replies: list[Reply], channel: Channel, memory_mb: int) -> None:
    try:
        channel.send(replies)
        return
    except MemoryError:
        pass
    for reply in replies:
        try:
            channel.send([reply])
        except MemoryError:
            text = f"the result needed more than {memory_mb} MB of memory"
            channel.send([_reply(QueryResult(Status.TOO_LARGE, error=text), 0.0)])


def _reply(result: QueryResult, seconds: float) -> Reply:
    return tuple((vars(result) | {"status": result.status.value, "seconds": seconds}).values())
