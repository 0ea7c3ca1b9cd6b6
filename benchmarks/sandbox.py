"""What the sandbox, the judge and the vote cost: all ratios from one run.

``python -m benchmarks.sandbox`` measures (a) evaluation of BIRD's 13 published prediction files
against the official style and against the floor, (b) a small query against open, query, close,
(c) how late a late query ends, (d) scoring and voting of up to 50,000 stored rollouts.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import evaluation_speed, query_speed, voting_scale
from benchmarks.measuring import surroundings, write

_BIRD = Path(__file__).resolve().parents[2] / "shared" / "data" / "bird"


def main() -> None:
    """Parse the command line, measure, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bird", type=Path, default=_BIRD, help="BIRD mini-dev and predictions")
    parser.add_argument("--rounds", type=int, default=5, help="of the evaluation; the best counts")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    given = parser.parse_args()
    found: dict[str, Any] = {"measured": surroundings()}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if (given.bird / "predictions_minidev").is_dir():
            found["evaluation"] = [
                evaluation_speed.measure(given.bird, work, given.rounds, processes)
                for processes in (1, 2)
            ]
        else:
            print(f"Evaluation is left out: {given.bird} has no BIRD mini-dev predictions.")
        database = query_speed.build(work / "many_tables.sqlite")
        found["query"] = query_speed.query_cost(database)
        found["late_query"] = query_speed.kill_latency(database)
        found["stored_rollouts"] = voting_scale.measure(work)
    write(found, given.out)


if __name__ == "__main__":
    main()
