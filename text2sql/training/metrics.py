"""The metrics file of a training run: written by the trainer, followed and read by the others."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WAITING_FILE = "waiting"
"""While a program waits for machines, this file beside its metrics says what it waits for."""

Metrics = dict[str, Any]
_BLOCK_BYTES = 1 << 18


class MetricsFile:
    """A file of JSON lines, one per step, each complete on disk before the next step begins.

    A resumed run appends: the last line of a repeated step counts. A line that a crash cut short
    stays as a line of its own, which ``objects_in`` skips.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        if self._file.tell() and not path.read_bytes().endswith(b"\n"):
            self._file.write(b"\n")  # a crash cut the last line short

    def append(self, *lines: Mapping[str, Any]) -> None:
        """Write the lines; a number that is not finite becomes null."""
        for line in lines:
            finite = {name: finite_or_none(value) for name, value in line.items()}
            self._file.write(json.dumps(finite).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class MetricsTail:
    """Reads the objects that a process appends to a metrics file, each once, 256 KiB at a time."""

    def __init__(self, path: Path) -> None:
        """Begin at the file's present end: an earlier attempt reported the lines before."""
        self.path = path
        self.more = False
        """Whether the last poll left complete lines behind."""
        self._offset = path.stat().st_size if path.is_file() else 0

    def poll(self) -> list[Metrics]:
        """Return what is new in complete lines; the file may go or be replaced at any moment."""
        complete, newline, _rest = self._block().rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        self.more = self.more and bool(newline)
        return objects_in(complete)

    def _block(self) -> bytes:
        """Read the next block; of a line that is longer than a block, all that exists."""
        self.more = False
        if not self.path.is_file():
            return b""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                block = file.read(_BLOCK_BYTES)
                self.more = len(block) == _BLOCK_BYTES
                return block if b"\n" in block else block + file.readline()
        except FileNotFoundError:
            return b""


def objects_in(lines: bytes) -> list[Metrics]:
    """Return the JSON objects of a metrics file's lines, without those that a crash cut short."""
    found = []
    for line in lines.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def read_metrics(path: Path) -> list[Metrics]:
    """Return a metrics file by step, later lines of a step merged over earlier ones."""
    steps: dict[int, Metrics] = {}
    for line in objects_in(path.read_bytes()) if path.is_file() else ():
        if isinstance(step := line.get("step"), int):
            steps.setdefault(step, {}).update(line)
    return [steps[step] for step in sorted(steps)]


def is_finite(value: object) -> bool:
    """Say whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def finite_or_none(value: Any) -> Any:
    """Return None for a float that is not finite, which JSON has no word for, else the value."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
