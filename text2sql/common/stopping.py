"""Programs that run until a signal stops them: Ctrl-C, SIGTERM, or a terminal that closes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STANDARD_ERROR = 2


def block_signals() -> None:
    """Block these signals, also across an ``exec``, until ``exit_on_signals``."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block these signals until the end of the block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def exit_on_signals(sentence: str) -> None:
    """Exit at the first of these signals, a blocked one included, with a sentence on stderr.

    For the time before ``stop_on_signals``, while modules are imported and nothing has begun.
    """

    def exit_now(number: int, _frame: FrameType | None) -> NoReturn:
        os.write(_STANDARD_ERROR, f"{sentence}\n".encode())
        os._exit(128 + number)

    _handle(exit_now)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


class Stopped(KeyboardInterrupt):
    """A signal stopped the program; ``status`` is the exit status that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def stop_on_signals() -> None:
    """Raise Stopped at the first of these signals; later ones do not disturb the cleanup."""

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    _handle(stop)


def _handle(handler: Callable[[int, FrameType | None], NoReturn]) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, handler)
