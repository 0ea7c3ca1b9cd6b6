"""What a day of reports costs and what it survives, against a scripted policy server.

``python -m benchmarks.reports`` measures, on SQLite and on PostgreSQL, (a) one Dagster run of
200 questions with 8 votes each, (b) memory while they are answered, (c) runs in a row and
backfills side by side, (d) a process that answers and is killed 20 times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import report_days, report_kills
from benchmarks.measuring import measure_parts
from benchmarks.report_setting import both_databases


def _on_both(part: Callable[[Path, str], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    """Measure a part on SQLite and on PostgreSQL."""

    def measure(folder: Path) -> dict[str, Any]:
        with both_databases(folder) as urls:
            return {kind: part(folder / kind, url) for kind, url in urls.items()}

    return measure


PARTS = {
    "one_run": _on_both(report_days.one_run),
    "memory": _on_both(report_days.memory),
    "many_runs": _on_both(report_days.many_runs),
    "kills": _on_both(report_kills.measure),
}


if __name__ == "__main__":
    measure_parts(__doc__.splitlines()[0], PARTS)
