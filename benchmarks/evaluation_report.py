"""Scoring, voting curves, intervals and report of stored rollouts: time and memory.

Two policies on 1,534 questions (BIRD's dev split), each with a greedy rollout and 32 sampled ones
of about 5 KB a question, as ``benchmarks.voting_scale`` makes them. The target is two minutes on
2 cores and 2 GB. The stores are written first and not measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.measuring import surroundings, write
from benchmarks.voting_scale import QUESTIONS, REVISION, SAMPLES, write_store
from text2sql.evaluation.report.details import Evaluated, details_of
from text2sql.evaluation.report.files import PAGE, TRACE, write_report
from text2sql.evaluation.rollout_scores import PolicyRollouts, score_policies
from text2sql.evaluation.scores import BASE, TRAINED
from text2sql.questions import Question
from text2sql.rollouts.located import read_located

DATABASES, DIFFICULTIES = 11, ("simple", "moderate", "challenging")


def questions(folder: Path) -> list[Question]:
    """Make as many questions as BIRD's dev split has, on as many databases."""
    return [
        Question(
            key=f"dev/{n}",
            db_id=f"database_{n % DATABASES}",
            database=folder / "never_opened.sqlite",
            question=f"Which customers are called {n}?",
            sql=f"SELECT T1.name FROM customers AS T1 WHERE T1.id = 0 AND T1.q = {n}",
            difficulty=DIFFICULTIES[n % 3],
        )
        for n in range(QUESTIONS)
    ]


def write_stores(folder: Path) -> None:
    """Write a greedy and a sampled store for each policy."""
    for name in (BASE, TRAINED):
        write_store(folder / f"{name}-greedy.jsonl", QUESTIONS)
        write_store(folder / f"{name}-sampled.jsonl", QUESTIONS * SAMPLES)


def measure(folder: Path) -> dict[str, Any]:
    """Read, score and report the stores; seconds of each part and the highest memory."""
    seconds: dict[str, float] = {}
    asked = questions(folder)
    keys = [question.key for question in asked]

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = perf_counter()
        found = work()
        seconds[name] = round(perf_counter() - started, 2)
        return found

    def read(name: str) -> Evaluated:
        greedy = read_located([folder / f"{name}-greedy.jsonl"], keys, 1)
        drawn = [folder / f"{name}-sampled.jsonl"]
        return Evaluated(name, greedy, read_located(drawn, keys, SAMPLES))

    policies = timed("read", lambda: [read(name) for name in (BASE, TRAINED)])
    base, trained = map(_rollouts, policies)
    scores = timed("score", lambda: score_policies(asked, base, trained, SAMPLES))
    details = timed("failures", lambda: details_of("run", asked, scores, policies, folder))
    timed("write", lambda: write_report(folder, details, policies, asked, folder))
    return {
        "rollouts": sum(len(p.greedy) + len(p.sampled) for p in policies),
        "seconds": seconds | {"all": round(sum(seconds.values()), 2)},
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "page_mb": round((folder / PAGE).stat().st_size / 1e6, 1),
        "trace_mb": round((folder / TRACE).stat().st_size / 1e6, 1),
    }


def _rollouts(policy: Evaluated) -> PolicyRollouts:
    return PolicyRollouts(policy.name, REVISION, policy.greedy.rollouts, policy.sampled.rollouts)


def main() -> None:
    """Write the stores, and measure in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    parser.add_argument("--stores", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stores:
        print(json.dumps(measure(given.stores)))
        return
    found: dict[str, Any] = {"measured": surroundings()}
    with tempfile.TemporaryDirectory() as folder:
        write_stores(Path(folder))
        command = [sys.executable, "-m", "benchmarks.evaluation_report", "--stores", folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    write(found | json.loads(done.stdout), given.out)


if __name__ == "__main__":
    main()
