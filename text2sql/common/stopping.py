"""Programs that run until somebody asks for their end: Ctrl-C, SIGTERM, a terminal that closes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STANDARD_ERROR = 2


def hold_signals() -> None:
    """Let such signals wait, also over an ``exec``, until ``end_on_signals`` or for ever."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


@contextmanager
def signals_held() -> Iterator[None]:
    """Let such signals wait until the block has been left."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def end_on_signals(sentence: str) -> None:
    """End the program at once at the first such signal, also at one that waited.

    For the time before ``stop_on_signals``, in which modules are imported and nothing was begun.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        os.write(_STANDARD_ERROR, f"{sentence}\n".encode())
        os._exit(128 + number)

    _handle(end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


class Stopped(KeyboardInterrupt):
    """A signal asked for the end; ``status`` is the exit status that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def stop_on_signals() -> None:
    """Raise Stopped at the first such signal; what tidies up then is not disturbed by others.

    A signal that is ignored stays so, as nohup wants it.
    """
    _handle(_stop)


def _handle(handler: Callable[[int, FrameType | None], NoReturn]) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)
