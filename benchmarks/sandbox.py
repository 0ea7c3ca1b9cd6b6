"""What the sandbox, the judge and the vote cost: all ratios from one run.

``python -m benchmarks.sandbox`` measures (a) evaluation of BIRD's 13 published prediction files
against the official style and against the floor, by the library, (b) the same by the command that
people type, (c) a small query against open, query, close, (d) how late a late query ends, (e)
scoring and voting of up to 50,000 stored rollouts.
``--only`` measures one of them again and leaves the others in ``--out`` as they are.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import evaluation_command, evaluation_speed, query_speed, voting_scale
from benchmarks.measuring import surroundings, write

_BIRD = Path(__file__).resolve().parents[2] / "shared" / "data" / "bird"


Part = Callable[[Path, argparse.Namespace], Any]


def _evaluation(work: Path, given: argparse.Namespace) -> Any:
    if not (given.bird / "predictions_minidev").is_dir():
        return f"left out: {given.bird} has no BIRD mini-dev predictions"
    return [
        evaluation_speed.measure(given.bird, work, given.rounds, processes) for processes in (1, 2)
    ]


def _evaluation_command(work: Path, given: argparse.Namespace) -> Any:
    if not (given.bird / "predictions_minidev").is_dir():
        return f"left out: {given.bird} has no BIRD mini-dev predictions"
    return evaluation_command.measure(given.bird, work, given.rounds)


def _query(work: Path, _: argparse.Namespace) -> Any:
    return query_speed.query_cost(query_speed.build(work / "many_tables.sqlite"))


def _late_query(work: Path, _: argparse.Namespace) -> Any:
    return query_speed.kill_latency(query_speed.build(work / "many_tables.sqlite"))


def _stored_rollouts(work: Path, _: argparse.Namespace) -> Any:
    return voting_scale.measure(work)


PARTS: dict[str, Part] = {
    "evaluation": _evaluation,
    "evaluation_command": _evaluation_command,
    "query": _query,
    "late_query": _late_query,
    "stored_rollouts": _stored_rollouts,
}


def main() -> None:
    """Parse the command line, measure, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bird", type=Path, default=_BIRD, help="BIRD mini-dev and predictions")
    parser.add_argument("--rounds", type=int, default=5, help="of the evaluation; the best counts")
    parser.add_argument("--only", choices=PARTS, help="measure this part again")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    given = parser.parse_args()
    found = _measure(given)
    write(found, given.out)


def _measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure all parts, or one, whose own surroundings then stand beside the others'."""
    if given.only is None:
        about = {"measured": surroundings()}
        return about | {name: _part(name, given) for name in PARTS}
    known = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    again = {**known.get("measured_again", {}), given.only: surroundings()}
    return {**known, given.only: _part(given.only, given), "measured_again": again}


def _part(name: str, given: argparse.Namespace) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return PARTS[name](Path(folder), given)


if __name__ == "__main__":
    main()
