"""The sandbox: a pool of worker processes that run untrusted SQL within limits."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from text2sql.errors import Text2SqlError
from text2sql.sandbox.channel import UNUSABLE, Channel
from text2sql.sandbox.files import check_database
from text2sql.sandbox.limits import MAX_SQL_CHARS, Limits
from text2sql.sandbox.results import QueryResult, Status, timeout_message

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_ROOT = str(Path(__file__).resolve().parents[2])
_START = "import sys; sys.path.append(sys.argv[1]); from text2sql.sandbox.worker import main; "
_START += "main(int(sys.argv[2]), int(sys.argv[3]))"
_START_SECONDS = 60.0
_GRACE_SECONDS = 0.1
"""A worker ends most late queries itself; after this much more time it is killed."""


class _WorkerLost(Exception):
    """The worker is gone, and with it the job it had."""


class _Worker:
    """One worker process and the channel to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-S", "-c", _START, _ROOT, str(theirs.fileno())]
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self.channel = Channel(ours)

    def wait_ready(self) -> None:
        """Wait until the worker takes jobs; raises _WorkerLost when it does not."""
        try:
            self.channel.receive(monotonic() + _START_SECONDS)
        except (EOFError, OSError) as error:
            self.end()
            raise _WorkerLost("a worker process did not start") from error

    def end(self) -> int:
        """Kill the process and return its exit status; it holds nothing worth saving."""
        self.process.kill()
        self.channel.close()
        return self.process.wait()


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end_all(workers: set[_Worker], owner: int) -> None:
    if os.getpid() == owner:
        while workers:
            workers.pop().end()


class Sandbox:
    """Runs SQL in worker processes: read-only, bounded, killed at the deadline.

    Thread-safe and meant to live long: workers start when they are first needed and keep
    their connections. Use as a context manager or call ``close``.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or _cores()
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(self.workers):
            self._idle.put(None)
        self._alive: set[_Worker] = set()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._checked: dict[Path, tuple[int, ...]] = {}
        self._closed = False
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _end_all, self._alive, self._owner)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(
        self,
        database: Path,
        sql: str,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        *,
        strict_text: bool = False,
    ) -> QueryResult:
        """Run one text and wait for its result.

        ``strict_text`` fails on text that is not valid UTF-8, as Python's sqlite3 does;
        otherwise such bytes are replaced. Raises Text2SqlError for a database that cannot
        be read at all.
        """
        path = self._check(database)
        if len(sql) > MAX_SQL_CHARS:
            error = f"the text is longer than {MAX_SQL_CHARS:,} characters and was not read"
            return QueryResult(Status.ERROR, error=error)
        job = (
            str(path),
            sql,
            strict_text,
            limits.seconds,
            limits.keep_rows,
            limits.max_rows,
            limits.max_bytes,
            limits.memory_mb,
            limits.cut,
        )
        try:
            return self._run(job, limits)
        except _WorkerLost:
            pass  # for reasons of its own, most likely: once more on another worker
        try:
            return self._run(job, limits)
        except _WorkerLost as error:
            return QueryResult(Status.INFRASTRUCTURE, error=f"{error}, twice for this query")

    async def aexecute(
        self,
        database: Path,
        sql: str,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        *,
        strict_text: bool = False,
    ) -> QueryResult:
        """Do what ``execute`` does without blocking the event loop."""
        import asyncio

        def run() -> QueryResult:
            return self.execute(database, sql, limits, strict_text=strict_text)

        return await asyncio.get_running_loop().run_in_executor(self._executor(), run)

    def close(self) -> None:
        """End all workers, queries in flight included; safe to call again."""
        self._closed = True
        with self._lock:
            if os.getpid() == self._owner:
                _end_all(self._alive, self._owner)
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)

    def _executor(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            self._refuse_if_closed()
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.workers, "text2sql-sandbox")
            return self._threads

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Text2SqlError("This sandbox is closed; open a new one.")
        if os.getpid() != self._owner:
            raise Text2SqlError("This sandbox belongs to another process; open one in each.")

    def _check(self, database: Path) -> Path:
        """Look into the file once for each state that it is in."""
        try:
            found = os.stat(database)
        except OSError:
            return check_database(database)
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if self._checked.get(database) != stamp:
            check_database(database)
            self._checked[database] = stamp
        return Path(os.path.abspath(database))

    def _run(self, job: tuple[Any, ...], limits: Limits) -> QueryResult:
        """Run a job on some worker; raises _WorkerLost when the worker dies under it."""
        self._refuse_if_closed()
        worker, healthy = self._idle.get(), False
        try:
            worker = worker or self._start()
            started = monotonic()
            worker.channel.send(job)
            reply = worker.channel.receive(started + limits.seconds + _GRACE_SECONDS)
            healthy = True
        except TimeoutError:
            error = timeout_message(limits.seconds)
            return QueryResult(Status.TIMEOUT, error=error, seconds=monotonic() - started)
        except (EOFError, OSError) as lost:
            self._refuse_if_closed()
            raise _WorkerLost("the worker process died") from lost
        finally:
            if worker is not None and not healthy:
                self._alive.discard(worker)
                worker.end()
            self._idle.put(worker if healthy else None)
        return _result(reply, monotonic() - started)

    def _start(self) -> _Worker:
        with self._lock:
            self._refuse_if_closed()
            worker = _Worker()
            self._alive.add(worker)
        try:
            worker.wait_ready()
        except _WorkerLost:
            self._alive.discard(worker)
            self._refuse_if_closed()
            raise
        return worker


def _result(reply: tuple[Any, ...], seconds: float) -> QueryResult:
    """Read a worker's reply; raises Text2SqlError when the database cannot be read at all."""
    if reply[0] == UNUSABLE:
        raise Text2SqlError(reply[1])
    status, *fields = reply
    return replace(QueryResult(Status(status), *fields), seconds=seconds)
