"""How far many rollouts are: a bar on a terminal, a line in the log now and then elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_EVERY = 15.0  # seconds between two lines
_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the number of finished rollouts and of all, at the start and after each."""


@contextmanager
def show_progress(title: str, tell: Callable[[str], None] = _log.info) -> Iterator[Progress]:
    """Yield a callback for ``sample_rollouts``: it draws a bar where standard error is a terminal.

    Elsewhere it tells every quarter of a minute how many are done and how long the rest takes.
    """
    if not sys.stderr.isatty():
        yield Lines(title, tell)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, TimeElapsedColumn(), TimeLeft(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class Lines:
    """Progress as sentences: ``rollouts: 120 of 4,000; 31.2 a second; about 124 s to go``."""

    def __init__(self, title: str, tell: Callable[[str], None], every: float = _EVERY) -> None:
        self._title = title
        self._tell = tell
        self._every = every
        self._began = self._told = monotonic()
        self._there: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Take in how far it is; what the first call says was there before and took no time."""
        if self._there is None:
            self._there, self._began = done, monotonic()
        now = monotonic()
        if now - self._told < self._every:
            return
        self._told = now
        text = f"{self._title}: {done:,} of {total:,}"
        rate = (done - self._there) / max(now - self._began, 1e-9)
        if rate:
            text += f"; {rate:.1f} a second; about {(total - done) / rate:,.0f} s to go"
        self._tell(text)
