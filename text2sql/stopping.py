"""Programs that run until somebody asks for their end: Ctrl-C, SIGTERM, a terminal that closes."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal asked for the end; ``status`` is the exit status that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def stop_on_signals() -> None:
    """Raise Stopped at the first such signal; what tidies up then is not disturbed by others.

    A signal that is ignored stays so, as nohup wants it.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)
