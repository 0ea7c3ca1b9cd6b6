"""What the benchmarks share: time and memory, and saying on what machine a number was measured."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import page


def seconds(work: Callable[[], Any]) -> float:
    """Return how long one call takes, wall clock."""
    started = perf_counter()
    work()
    return perf_counter() - started


def cpu_seconds(processes: Iterable[int]) -> float:
    """Return the processor time that running processes have used; a busy machine adds little."""
    ticks = 0
    for process in processes:
        values = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_mb() -> float:
    """Return the most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mb() -> float:
    """Return the memory that this process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def surroundings() -> dict[str, Any]:
    """Say when, how and on what something was measured."""
    return {
        "command": "python -m " + " ".join([_module(), *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _module() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec else Path(sys.argv[0]).stem


def measure_parts(title: str, parts: Mapping[str, Callable[[Path], Any]]) -> None:
    """Parse a benchmark's command line, measure its parts in folders of their own, write them.

    With ``--only`` the other parts in the file stay, and ``again`` says of these when and how.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--only", choices=parts, action="append", help="measure this part")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    given = parser.parse_args()
    found: dict[str, Any] = {"measured": surroundings()}
    if given.only and given.out and given.out.is_file():
        about, found = found["measured"], json.loads(given.out.read_text(encoding="utf-8"))
        found["again"] = found.get("again", {}) | dict.fromkeys(given.only, about)
    for name in given.only or parts:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = parts[name](Path(folder))
    write(found, given.out)


def write(found: dict[str, Any], path: Path | None) -> None:
    """Print what was measured, and write it as JSON where a path says so.

    A result that is kept also goes to the page of benchmarks.
    """
    text = json.dumps(found, indent=2)
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
        if path.parent.resolve() == page.RESULTS:
            page.main()
