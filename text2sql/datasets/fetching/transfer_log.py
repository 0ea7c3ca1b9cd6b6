"""What is said while a file comes in: how much of it, how fast, and how long it will take."""

from __future__ import annotations

import time

from text2sql.common.locking import Say

_EVERY_SECONDS = 10.0


class TransferLog:
    """Says a sentence at most every ten seconds."""

    def __init__(self, name: str, have: int, size: int, say: Say) -> None:
        self._name, self._size, self._say = name, size, say
        self._first = have
        self._began = self._told = time.monotonic()

    def note(self, have: int) -> None:
        """Take that so many bytes of the file are there."""
        now = time.monotonic()
        if now - self._told >= _EVERY_SECONDS:
            self._told = now
            self._say(f"{self._name}: {self._progress(have, now - self._began)}")

    def end(self, have: int) -> None:
        """Say that the file is complete."""
        seconds = time.monotonic() - self._began
        new = have - self._first
        self._say(f"{self._name} is complete: {megabytes(new)} MB in {seconds:.0f} s.")

    def _progress(self, have: int, seconds: float) -> str:
        rate = (have - self._first) / seconds
        if self._size < 0:
            return f"{megabytes(have)} MB, {megabytes(rate)} MB/s"
        left = f", {(self._size - have) / rate:,.0f} s left" if rate else ""
        of = f"{megabytes(have)} of {megabytes(self._size)} MB ({have / self._size:.0%})"
        return f"{of}, {megabytes(rate)} MB/s{left}"


def megabytes(count: float) -> str:
    """Return bytes in millions, with a decimal where there are few."""
    return f"{count / 1e6:,.1f}" if count < 1e8 else f"{count / 1e6:,.0f}"
