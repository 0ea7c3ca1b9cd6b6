"""All benchmarks in one command, and the page with their numbers.

``python -m benchmarks.all`` runs each in a process of its own, one after the other, on a machine
that should do nothing else; it takes two hours and more on two cores. What a benchmark says is
appended to a log below ``build/benchmarks``; it ends with this program, however that ends.
``--quick`` runs a short form of each in a few minutes: it shows that they work, its numbers are no
measurement and are written to ``build/benchmarks``, too.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks import page
from text2sql.common.checkout import CHECKOUT
from text2sql.common.processes import GuardedProcess, last_lines

QUICK = CHECKOUT / "build" / "benchmarks"


@dataclass(frozen=True)
class Benchmark:
    """A module below ``benchmarks`` and its arguments, those of the short form apart.

    ``quick`` None: there is no short form.
    """

    module: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ()


BENCHMARKS = {
    "sandbox": Benchmark("sandbox", quick=("--rounds", "1", "--only", "query")),
    "rollouts": Benchmark("rollouts", quick=("--only", "faults")),
    "ingestion": Benchmark("ingestion", quick=("--megabytes", "20", "--questions", "100")),
    "difficulty": Benchmark("difficulty", quick=("--questions", "100")),
    "strength": Benchmark("strength"),
    "evaluation_report": Benchmark("evaluation_report", quick=None),
    "reports": Benchmark("reports", quick=("--only", "memory")),
    "training_kills": Benchmark("training_kills", quick=("--only", "memory")),
    "operations": Benchmark("operations", quick=("--only", "load_time")),
    "pocket_gain": Benchmark("pocket_gain", quick=None),
    "pocket_gain_control": Benchmark("pocket_gain", ("--control", "--seeds", "1"), None),
}


def main() -> None:
    """Run what was asked for; a benchmark that fails does not stop the others."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.all", description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="run this one")
    parser.add_argument("--quick", action="store_true", help="run the short forms")
    given = parser.parse_args()
    failed = [name for name in given.only or BENCHMARKS if not run(name, given.quick)]
    if not given.quick:
        page.main()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(name: str, quick: bool) -> bool:
    """Run one benchmark and say how long it took; return whether it ended well."""
    benchmark = BENCHMARKS[name]
    if quick and benchmark.quick is None:
        print(f"{name:<20} has no short form", flush=True)
        return True
    folder = QUICK if quick else page.RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    arguments = benchmark.arguments + ((benchmark.quick or ()) if quick else ())
    out = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    command = ["-m", f"benchmarks.{benchmark.module}", *arguments, "--out", f"{out}/{name}.json"]
    log, started = QUICK / f"{name}.log", perf_counter()
    with GuardedProcess([sys.executable, *command], log) as running:
        status = running.process.wait()
    print(f"{name:<20} {perf_counter() - started:8.1f} s  {out}/{name}.json", flush=True)
    if status:
        print(f"{name} ended with status {status}:\n{last_lines(log)}", file=sys.stderr)
    return status == 0


if __name__ == "__main__":
    main()
