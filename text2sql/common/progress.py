"""How far a long task is: a bar on a terminal, elsewhere a line in the log now and then."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_EVERY = 15.0  # seconds between two lines
_log = logging.getLogger(__name__)

OnProgress = Callable[[int, int], None]
"""Called with the number of finished rollouts and of all, at the start and after each."""


@contextmanager
def show_progress(title: str, say: Callable[[str], None] = _log.info) -> Iterator[OnProgress]:
    """Yield a callback that draws a bar where standard error is a terminal.

    Elsewhere it says every 15 seconds how many are done and how long the rest takes.
    """
    if not sys.stderr.isatty():
        yield ProgressLines(title, say)
        return
    from rich import progress as rich
    from rich.console import Console

    title_and_bar = (rich.TextColumn("{task.description}"), rich.BarColumn())
    numbers = (rich.MofNCompleteColumn(), rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*title_and_bar, *numbers, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class ProgressLines:
    """Progress as sentences: ``rollouts: 120 of 4,000; 31.2 a second; about 124 s to go``."""

    def __init__(self, title: str, say: Callable[[str], None], every: float = _EVERY) -> None:
        self._title = title
        self._say = say
        self._every = every
        self._began = self._last = monotonic()
        self._done_before: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Note how much is done; the first call says what earlier runs did, which took no time."""
        if self._done_before is None:
            self._done_before, self._began = done, monotonic()
        now = monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        text = f"{self._title}: {done:,} of {total:,}"
        rate = (done - self._done_before) / max(now - self._began, 1e-9)
        if rate:
            text += f"; {rate:.1f} a second; about {(total - done) / rate:,.0f} s to go"
        self._say(text)
