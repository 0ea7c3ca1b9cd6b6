"""The sandbox: a pool of worker processes that run untrusted SQL within limits."""

from __future__ import annotations

import logging
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text2sql.errors import Text2SqlError
from text2sql.sandbox.channel import OPENING, UNUSABLE, WRITING
from text2sql.sandbox.files import absolute_path, check_database
from text2sql.sandbox.limits import MAX_SQL_CHARS, Limits
from text2sql.sandbox.process import BatchOutcome, Text, WorkerLost, WorkerProcess, threads_start
from text2sql.sandbox.results import QueryResult, Status, refused, timeout_message
from text2sql.sandbox.sql.statements import classify

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_log = logging.getLogger(__name__)
_MOST_WORKERS = 1_000
_BATCH, _FEW = 64, 4
_ATTEMPTS = 2
"""A worker may die for reasons of its own: its text gets a second try on another one."""

_MANY_JOINS = 3


class Work:
    """Texts to run, taken in batches by several threads.

    Batches get smaller towards the end, so that all workers end at about the same time, and are
    small where a text may take long, so that few wait behind it.
    """

    def __init__(self, texts: Sequence[Text], workers: int) -> None:
        self.texts = texts
        self._workers = workers
        self._results: list[QueryResult | Text2SqlError | None] = [None] * len(texts)
        self._deaths: dict[int, int] = {}
        self._lock = threading.Lock()
        self._stopped = False
        self._busy: set[WorkerProcess] = set()
        error = f"the text is longer than {MAX_SQL_CHARS:,} characters and was not read"
        fit = []
        for number, (_, sql) in enumerate(texts):
            if len(sql) <= MAX_SQL_CHARS:
                fit.append(number)
            else:
                self._results[number] = QueryResult(Status.ERROR, error=error)
        self._left = deque(sorted(fit, key=lambda number: _turn(*texts[number])))

    @property
    def batches(self) -> int:
        """How many batches can be taken now, at least 1 while any text is left."""
        size = self._size()
        return -(-len(self._left) // size) if size else 0

    def take(self) -> list[int]:
        """Return the numbers of the texts to run next, none when all are done."""
        with self._lock:
            return [self._left.popleft() for _ in range(0 if self._stopped else self._size())]

    def stop(self) -> None:
        """Stop: kill what is running, start nothing else."""
        with self._lock:
            self._stopped = True
            for worker in self._busy:
                worker.process.kill()

    @contextmanager
    def running_on(self, worker: WorkerProcess) -> Iterator[None]:
        """Let ``stop`` know which worker runs a batch of this work."""
        with self._lock:
            self._busy.add(worker)
            if self._stopped:
                worker.process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._busy.remove(worker)

    def settle(self, batch: list[int], outcome: BatchOutcome, seconds: float) -> None:
        """Store a batch's results; what its worker did not get to runs again."""
        for number, reply in zip(batch, outcome.replies, strict=False):
            unusable = reply[0] == UNUSABLE
            self._results[number] = (
                Text2SqlError(reply[1]) if unusable else QueryResult(Status(reply[0]), *reply[1:])
            )
        again = batch[len(outcome.replies) :]
        if outcome.late:
            late = batch[outcome.at]
            self._results[late] = self._late(late, outcome.stage, seconds)
            again.remove(late)
        if outcome.died:
            dead = batch[outcome.at]
            self._deaths[dead] = self._deaths.get(dead, 0) + 1
            if self._deaths[dead] >= _ATTEMPTS:
                self._results[dead] = self._dead(dead, outcome)
                again.remove(dead)
        with self._lock:
            self._left.extendleft(reversed(again))

    def results(self) -> list[QueryResult]:
        """Return the results in the order of the texts.

        Raises Text2SqlError for the first database that cannot be read at all.
        """
        found: list[QueryResult] = []
        for result in self._results:
            if isinstance(result, Text2SqlError):
                raise result
            assert result is not None
            found.append(result)
        return found

    def _size(self) -> int:
        left = len(self._left)
        most = _FEW if left and _is_nested(self.texts[self._left[0]][1]) else _BATCH
        return min(left, most, max(1, left // (2 * self._workers)))

    def _late(self, number: int, stage: int, seconds: float) -> QueryResult:
        if stage == WRITING:
            return self._refused(number)
        if stage == OPENING:
            path = self.texts[number][0]
            error = f"{path}: the database could not be opened within {seconds:g} s"
            return QueryResult(Status.INFRASTRUCTURE, error=error)
        return QueryResult(Status.TIMEOUT, error=timeout_message(seconds), seconds=seconds)

    def _refused(self, number: int) -> QueryResult:
        """Refuse a text whose write takes too long, or crashes SQLite, while it is compiled."""
        return refused(next(s.verb for s in classify(self.texts[number][1]) if s.writes))

    def _dead(self, number: int, outcome: BatchOutcome) -> QueryResult:
        if outcome.crashed and outcome.stage == WRITING:
            return self._refused(number)
        if outcome.crashed and outcome.stage != OPENING:
            return QueryResult(Status.ERROR, error="the query crashes SQLite")
        what = "opening it crashes SQLite" if outcome.crashed else "the worker process died"
        error = f"{self.texts[number][0]}: {what}, twice for one query"
        return QueryResult(Status.INFRASTRUCTURE, error=error)


def _is_nested(sql: str) -> bool:
    """Whether a query may run once for each row of an outer one."""
    return sql.lower().count("select") > 1


def _turn(path: str, sql: str) -> tuple[bool, int, bool, str]:
    """Return a text's sort key: slow texts first, so that no worker finishes alone.

    Nested queries come first, by their number of joins, then those with many joins. Texts on one
    database are neighbours, so that a worker needs few connections.
    """
    joins = sql.lower().count("join")
    if _is_nested(sql):
        return False, -joins, False, path
    return True, 0, joins < _MANY_JOINS, path


def _end_all(workers: set[WorkerProcess], owner: int) -> None:
    if os.getpid() == owner:
        while workers:
            workers.pop().end()


class Sandbox:
    """Runs SQL in worker processes: read-only, within limits, killed at the deadline.

    Thread-safe and meant to live long: workers start on demand and keep their connections. Use it
    as a context manager, or call ``close``.
    """

    def __init__(self, workers: int | None = None) -> None:
        limited = hasattr(os, "sched_getaffinity")  # to some cores; only Linux says to which
        cores = len(os.sched_getaffinity(0)) if limited else os.cpu_count() or 1
        self.workers = workers or min(cores, _MOST_WORKERS)
        if not 0 < self.workers <= _MOST_WORKERS:
            raise Text2SqlError(f"A sandbox has 1 to {_MOST_WORKERS:,} workers, not {workers:,}.")
        self._idle: queue.LifoQueue[WorkerProcess | None] = queue.LifoQueue()
        for _ in range(self.workers):
            self._idle.put(None)
        self._alive: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _end_all, self._alive, self._owner)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(
        self, database: Path, sql: str, limits: Limits = Limits(), *, strict_text: bool = False
    ) -> QueryResult:
        """Run one text and wait for its result.

        ``strict_text`` fails on text that is not valid UTF-8, as Python's sqlite3 does;
        otherwise such bytes are replaced. Raises Text2SqlError for a database that cannot
        be read at all.
        """
        return self.execute_many([(database, sql)], limits, strict_text=strict_text)[0]

    def execute_many(
        self,
        texts: Sequence[tuple[Path, str]],
        limits: Limits = Limits(),
        *,
        strict_text: bool = False,
    ) -> list[QueryResult]:
        """Run (database, SQL) pairs on all workers; return the results in the same order.

        The limits hold for each text. Many short queries cost far less this way than one at a
        time. Raises Text2SqlError for a database that cannot be read at all.
        """
        return self._carry_out(self._work(texts), limits, strict_text)

    def _work(self, texts: Sequence[tuple[Path, str]]) -> Work:
        databases = dict.fromkeys(database for database, _ in texts)
        paths = {database: absolute_path(database) for database in databases}
        return Work([(paths[database], sql) for database, sql in texts], self.workers)

    def _carry_out(self, work: Work, limits: Limits, strict_text: bool) -> list[QueryResult]:
        for path in dict.fromkeys(path for path, _ in work.texts):
            check_database(path)
        settings = (strict_text, *vars(limits).values())
        threads = min(self.workers, work.batches) - 1
        if threads <= 0:
            self._work_off(work, settings, limits)
            return work.results()
        from concurrent.futures import ThreadPoolExecutor

        with threads_start(), ThreadPoolExecutor(threads, "text2sql-batch") as pool:
            try:
                off = self._work_off
                others = [pool.submit(off, work, settings, limits) for _ in range(threads)]
                self._work_off(work, settings, limits)
                for other in others:
                    other.result()
            except BaseException:
                work.stop()
                raise
        return work.results()

    @property
    def confined(self) -> bool:
        """Whether the kernel, too, keeps the running workers from changing files (seccomp)."""
        with self._lock:
            return all(worker.confined for worker in self._alive)

    def check(self, databases: Iterable[Path]) -> None:
        """Raise Text2SqlError for the first of some databases that cannot be read at all."""
        self.execute_many([(database, "SELECT 1") for database in dict.fromkeys(databases)])

    async def aexecute(
        self, database: Path, sql: str, limits: Limits = Limits(), *, strict_text: bool = False
    ) -> QueryResult:
        """Do what ``execute`` does without blocking the event loop; cancelling stops the query."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        work = self._work([(database, sql)])

        def run() -> QueryResult:
            return self._carry_out(work, limits, strict_text)[0]

        try:
            with threads_start():
                self._refuse_if_closed()  # a forked child would wait for the lock forever
                with self._lock:
                    self._refuse_if_closed()
                    if self._threads is None:
                        self._threads = ThreadPoolExecutor(self.workers, "text2sql-sandbox")
                    threads = self._threads
                return await asyncio.get_running_loop().run_in_executor(threads, run)
        except asyncio.CancelledError:
            work.stop()
            raise

    def close(self) -> None:
        """End all workers, queries in flight included; safe to call again."""
        self._closed = True
        if os.getpid() != self._owner:
            return  # in a forked child, the thread that has the lock does not exist
        with self._lock:
            _end_all(self._alive, self._owner)
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)  # calls that wait then fail: the sandbox is closed

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Text2SqlError("This sandbox is closed; open a new one.")
        if os.getpid() != self._owner:
            raise Text2SqlError("This sandbox belongs to another process; open one in each.")

    def _work_off(self, work: Work, settings: tuple[Any, ...], limits: Limits) -> None:
        """Run batches until none is left to start."""
        while batch := work.take():
            try:
                outcome = self._run(work, batch, settings, limits)
            except BaseException:
                work.stop()
                raise
            work.settle(batch, outcome, limits.seconds)

    def _run(
        self, work: Work, batch: list[int], settings: tuple[Any, ...], limits: Limits
    ) -> BatchOutcome:
        """Run a batch on some worker, as far as it gets."""
        self._refuse_if_closed()
        worker, healthy = self._idle.get(), False
        try:
            if worker is not None and worker.process.poll() is not None:  # it died while idle
                self._dismiss(worker)
                worker = None
            worker = worker or self._start()
            with work.running_on(worker):
                outcome = worker.run([work.texts[n] for n in batch], settings, limits)
            healthy = not (outcome.late or outcome.died)
        except WorkerLost:
            return BatchOutcome([], 0, died=True)
        finally:
            if worker is not None and not healthy:
                self._dismiss(worker)
            self._idle.put(worker if healthy else None)
        if outcome.died:
            self._refuse_if_closed()
        return outcome

    def _dismiss(self, worker: WorkerProcess) -> None:
        _log.debug("ending sandbox worker %d", worker.process.pid)
        self._alive.discard(worker)
        worker.end()

    def _start(self) -> WorkerProcess:
        with self._lock:
            self._refuse_if_closed()
            worker = WorkerProcess()
            self._alive.add(worker)
        try:
            worker.wait_ready()
        except BaseException as error:
            self._dismiss(worker)
            if isinstance(error, WorkerLost):
                self._refuse_if_closed()
            raise
        return worker
