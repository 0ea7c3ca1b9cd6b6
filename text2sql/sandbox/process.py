"""The parent's side of one worker process: send it batches, enforce deadlines, kill it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from text2sql.errors import InfrastructureError
from text2sql.sandbox.channel import RUNNING, Channel, WorkerState, above_standard
from text2sql.sandbox.limits import Limits

_ROOT = str(Path(__file__).resolve().parents[2])
_START = "import sys; sys.path.append(sys.argv[1]); from text2sql.sandbox.worker.main import main; "
_START += "main(*map(int, sys.argv[2:]))"
_START_SECONDS = 60.0
_GRACE_SECONDS = 0.1
"""A worker ends most late queries itself; after this much more time it is killed."""

Text = tuple[str, str]
"""An absolute path of a database and the SQL to run on it."""

_FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
)
"""Signals that mean a crash: the process died of what it ran, and was not killed."""

_SHOWN = "ulimit -a shows this user's limits."


@contextmanager
def threads_start() -> Iterator[None]:
    """Raise InfrastructureError where the system does not let another thread start."""
    try:
        yield
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        raise InfrastructureError(f"No other thread can start. {_SHOWN}") from error


class WorkerLost(Exception):
    """A worker process did not start."""


@dataclass(frozen=True)
class BatchOutcome:
    """How far a worker got with a batch.

    ``replies`` are those to the first texts, in order. When the worker is gone (``late``: it was
    killed at the deadline; ``died``: it ended by itself), ``at`` is the position of the text that
    it was running and ``stage`` that text's stage; texts between the last reply and ``at`` had been
    run, and their results are lost. ``crashed``: it died of what it ran.
    """

    replies: list[tuple[Any, ...]]
    at: int = -1
    late: bool = False
    died: bool = False
    crashed: bool = False
    stage: int = RUNNING


class WorkerProcess:
    """One worker process and the channel to it; raises InfrastructureError if it cannot start.

    Once it is ready, ``confined`` says whether the kernel keeps it from changing files.
    """

    def __init__(self) -> None:
        self.confined = False
        try:
            self._start()
        except OSError as error:
            raise InfrastructureError(
                f"A worker process cannot start: {error.strerror or error}. {_SHOWN}"
            ) from error

    def _start(self) -> None:
        page = WorkerState.new_file()
        try:
            ours, theirs = socket.socketpair()
            theirs = socket.socket(fileno=above_standard(theirs.detach()))
        except OSError:
            os.close(page)
            raise
        command = [sys.executable, "-I", "-S", "-c", _START, _ROOT, str(theirs.fileno()), str(page)]
        try:
            self.process = subprocess.Popen(
                [*command, str(os.getpid())],
                pass_fds=[theirs.fileno(), page],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            self._state = WorkerState(page)
        finally:
            theirs.close()
            os.close(page)
        self._channel = Channel(ours)
        self._handed_out = 0

    def wait_ready(self) -> None:
        """Wait until the worker accepts jobs; raises WorkerLost where it does not start."""
        try:
            _, self.confined = self._channel.receive(monotonic() + _START_SECONDS)
        except (EOFError, OSError) as error:
            self.end()
            raise WorkerLost("a worker process did not start") from error

    def run(self, texts: Sequence[Text], settings: tuple[Any, ...], limits: Limits) -> BatchOutcome:
        """Run texts one after the other, each within the limits; stop at the first late one."""
        first, self._handed_out = self._handed_out, self._handed_out + len(texts)
        allowed = limits.seconds + _GRACE_SECONDS
        heard = monotonic()
        replies: list[tuple[Any, ...]] = []
        try:
            self._channel.send((tuple(texts), settings), heard + _START_SECONDS)
            heard = monotonic()
            deadline = heard + allowed
            while len(replies) < len(texts):
                try:
                    replies += self._channel.receive(deadline)
                    heard = monotonic()
                    deadline = heard + allowed
                except TimeoutError:
                    at, since, stage = self._busy_with(first, len(replies), heard)
                    deadline = since + allowed
                    if deadline <= monotonic():
                        return BatchOutcome(replies, at, late=True, stage=stage)
        except (EOFError, OSError):
            at, _, stage = self._busy_with(first, len(replies), heard)
            self.end()
            crashed = -self.process.returncode in _FAULTS
            return BatchOutcome(replies, at, died=True, crashed=crashed, stage=stage)
        return BatchOutcome(replies)

    def end(self) -> None:
        """Kill the process; it has nothing worth saving."""
        self.process.kill()
        self._channel.close()
        self._state.close()
        self.process.wait()

    def _busy_with(self, first: int, answered: int, heard: float) -> tuple[int, float, int]:
        """Return the running text's position in the batch, its start and its stage."""
        number, since, stage = self._state.read()
        if number - first < answered:  # between two texts, or between two batches
            return answered, heard, RUNNING
        return number - first, since, stage
