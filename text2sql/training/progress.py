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


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
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
