"""How a training program reports: a metrics file while it runs, Dagster Pipes at its end."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WAITING_FILE = "waiting"
"""While a program waits for machines, this file beside its metrics says what it waits for."""
_CHUNK = 1 << 18


class MetricsFile:
    """A file of JSON lines, one a step, each complete on disk before the next step begins.

    A resumed run appends: of a step that was repeated, the last line counts. A line that a crash
    tore stays, as a line of its own that ``objects_in`` leaves out.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        if self._file.tell() and not path.read_bytes().endswith(b"\n"):
            self._file.write(b"\n")  # a crash tore the last line

    def append(self, *lines: Mapping[str, Any]) -> None:
        """Write the lines; a number that is not finite becomes null."""
        for line in lines:
            finite = {name: _finite(value) for name, value in line.items()}
            self._file.write(json.dumps(finite).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def objects_in(lines: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects of a metrics file's lines, without those that a crash tore."""
    return [found for line in lines.splitlines() if isinstance(found := _loaded(line), dict)]


class MetricsTail:
    """Reads the objects that a process appends to a metrics file, each once, 256 KiB at a time."""

    def __init__(self, path: Path) -> None:
        """Begin at the file's present end: an earlier attempt's lines were reported by it."""
        self.path = path
        self.more = False
        """Whether the last look left complete lines behind."""
        self._offset = path.stat().st_size if path.is_file() else 0

    def poll(self) -> list[dict[str, Any]]:
        """Return what is new in complete lines; the file may go or be replaced at any moment."""
        complete, newline, _torn = self._block().rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        self.more = self.more and bool(newline)
        return objects_in(complete)

    def _block(self) -> bytes:
        """Read on; of a line that is longer than a block all that is there."""
        self.more = False
        if not self.path.is_file():
            return b""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                block = file.read(_CHUNK)
                self.more = len(block) == _CHUNK
                return block if b"\n" in block else block + file.readline()
        except FileNotFoundError:
            return b""


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def report_to_dagster(metadata: Mapping[str, str]) -> None:
    """Report the result as the asset's metadata where a Dagster step started this program."""
    if "DAGSTER_PIPES_CONTEXT" not in os.environ:
        return
    from dagster_pipes import open_dagster_pipes

    with open_dagster_pipes() as pipes:
        pipes.report_asset_materialization(metadata=dict(metadata))
