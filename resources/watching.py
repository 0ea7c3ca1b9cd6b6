"""A training program's progress, followed in the files that it writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from text2sql.errors import Text2SqlError
from text2sql.training.progress import WAITING_FILE, MetricsTail

Metrics = dict[str, Any]


class TrainingFailed(Text2SqlError):
    """The child program ended with an error, or made no progress and was ended."""


class Progress:
    """Hands on a child's metrics as they appear, and knows when there were none for too long.

    What the child says in its log is progress too: it checks for a while before it trains. While
    it waits for machines, the file ``waiting`` beside its metrics says why: this is said once, and
    no progress is expected.
    """

    def __init__(
        self,
        folder: Path,
        stall_seconds: float,
        on_metrics: Callable[[Metrics], None],
        say: Callable[[str], None],
    ) -> None:
        self._tail = MetricsTail(folder / "metrics.jsonl")
        self._waiting = folder / WAITING_FILE
        self._waiting.unlink(missing_ok=True)
        self._log = folder / "train.log"
        self.stall_seconds = stall_seconds
        self._on_metrics, self._say = on_metrics, say
        self._said, self._logged = "", 0
        self._last: Metrics | None = None
        self.moved()

    def moved(self) -> None:
        """Begin to wait for progress anew."""
        self._since = time.monotonic()

    def look(self) -> None:
        """Hand on what is new."""
        self._hand_on(self._tail.poll())
        while self._tail.more:
            self._hand_on(self._tail.poll())
        logged = self._log.stat().st_size if self._log.is_file() else 0
        if logged != self._logged:
            self._logged = logged
            self.moved()
        sentence = _text_in(self._waiting)
        if sentence is not None:
            self.moved()
            if sentence and sentence != self._said:
                self._say(sentence)
            self._said = sentence

    def _hand_on(self, found: Iterable[Metrics]) -> None:
        for metrics in found:
            self._last = metrics
            self.moved()
            self._on_metrics(metrics)

    def stalled(self) -> str:
        """Say that there was no progress for too long; empty where there was some."""
        if time.monotonic() - self._since <= self.stall_seconds:
            return ""
        last = f"the last step was {self._last.get('step')}" if self._last else ""
        return (
            f"Training made no progress for {self.stall_seconds:g} s and was ended; "
            f"{last or 'no step was finished'}. Checkpoints are kept: run it again to go on. Its "
            f"log is {self._log}."
        )


def _text_in(path: Path) -> str | None:
    """Return what a file says, None where there is none: it may go while it is looked at."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
