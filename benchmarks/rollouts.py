"""What rollouts cost and what they survive, against a scripted server in a process of its own.

``python -m benchmarks.rollouts`` measures (a) the processor time of a rollout of four calls,
(b) memory with 256 rollouts at once, (c) verdicts while the server spoils 20 % of its replies,
(d) a sampling process that is killed 20 times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import rollout_cost, rollout_faults, rollout_kills
from benchmarks.measuring import measure_parts

PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "processor_time": rollout_cost.processor_time,
    "memory": rollout_cost.memory,
    "faults": rollout_faults.measure,
    "kills": rollout_kills.measure,
}


if __name__ == "__main__":
    measure_parts(__doc__.splitlines()[0], PARTS)
