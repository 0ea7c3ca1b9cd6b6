"""The texts of one call: which are left to run, and the results of the others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from text2sql.errors import Text2SqlError
from text2sql.sandbox.channel import OPENING, UNUSABLE, WRITING
from text2sql.sandbox.limits import MAX_SQL_CHARS
from text2sql.sandbox.process import BatchOutcome, Text, WorkerProcess
from text2sql.sandbox.results import QueryResult, Status, refused, timeout_message
from text2sql.sandbox.sql.statements import classify

_BATCH, _FEW = 64, 4
_ATTEMPTS = 2
"""A worker may die for reasons of its own: its text gets a second try on another one."""


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


_MANY_JOINS = 3


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
