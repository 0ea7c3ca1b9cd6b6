"""What rollouts cost and what they survive, against a scripted server in a process of its own.

``python -m benchmarks.rollouts`` measures (a) the processor time of a rollout of four calls,
(b) memory with 256 rollouts at once, (c) verdicts while the server spoils 20 % of its replies,
(d) a sampling process that is killed 20 times.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import rollout_cost, rollout_faults, rollout_kills
from benchmarks.measuring import surroundings, write

PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "processor_time": rollout_cost.processor_time,
    "memory": rollout_cost.memory,
    "faults": rollout_faults.measure,
    "kills": rollout_kills.measure,
}


def main() -> None:
    """Parse the command line, measure, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    given = parser.parse_args()
    found: dict[str, Any] = {"measured": surroundings()}
    for name in given.only or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = PARTS[name](Path(folder))
    write(found, given.out)


if __name__ == "__main__":
    main()
