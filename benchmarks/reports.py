"""What a day of reports costs and what it survives, against a scripted policy server.

``python -m benchmarks.reports`` measures, on SQLite and on PostgreSQL, (a) one Dagster run of
200 questions with 8 votes each, (b) memory while they are answered, (c) runs in a row and
backfills side by side, (d) a process that answers and is killed 20 times.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import report_days, report_kills
from benchmarks.measuring import surroundings, write
from benchmarks.report_setting import both_databases

PARTS: dict[str, Callable[[Path, str], dict[str, Any]]] = {
    "one_run": report_days.one_run,
    "memory": report_days.memory,
    "many_runs": report_days.many_runs,
    "kills": report_kills.measure,
}


def main() -> None:
    """Parse the command line, measure, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    given = parser.parse_args()
    found: dict[str, Any] = {"measured": surroundings()}
    for name in given.only or PARTS:
        with tempfile.TemporaryDirectory() as folder, both_databases(Path(folder)) as urls:
            found[name] = {
                kind: PARTS[name](Path(folder) / kind, url) for kind, url in urls.items()
            }
    write(found, given.out)


if __name__ == "__main__":
    main()
