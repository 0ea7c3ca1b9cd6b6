"""Measure reward strength on a questions file, or on the pocket corpus, and print the shares.

python -m benchmarks.strength
python -m benchmarks.strength --questions dev.json --databases dev_databases
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.measuring import surroundings, write
from text2sql.datasets.gold.run import run_golds
from text2sql.datasets.pocket.corpus import DEVELOPMENT_SEED, CorpusSizes, generate
from text2sql.datasets.reading.layout import find_split
from text2sql.datasets.reading.questions import load_records, read_records
from text2sql.judge.strength.changes import Kind
from text2sql.judge.strength.measure import NearMissOutcome, Strength, measure_strength
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strength", description=__doc__)
    parser.add_argument("--questions", type=Path, help="BIRD's dev.json or one like it")
    parser.add_argument("--databases", type=Path, help="the folder of its databases")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.questions:
            records = read_records(options.questions, options.databases, "dev")
            questions = [record.question for record in records if record.reason is None]
        else:
            corpus = generate(Path(folder) / "pocket", DEVELOPMENT_SEED, CorpusSizes())
            questions = [
                record.question
                for split in ("train", "dev")
                for record in load_records(find_split(corpus, split))
            ]
        found = {"measured": surroundings()} | _measure(questions)
    if options.out:
        write(found, options.out)


def _measure(questions: list[Question]) -> dict[str, Any]:
    """Measure and print; return the numbers."""
    with Sandbox() as sandbox:
        golds = run_golds(questions, sandbox, Limits())
        started = time.monotonic()
        found = list(measure_strength(questions, golds, sandbox, Limits(seconds=10)))
        seconds = time.monotonic() - started
    scores = [one.score for one in found if one.score is not None]
    whole = sum(score == 1 for score in scores)
    print(f"{len(questions)} questions, {len(scores)} with a score, in {seconds:.1f} s")
    print(f"mean strength {sum(scores) / max(1, len(scores)):.3f}, {whole} with all told apart")
    _print_kinds(found)
    for reason, count in Counter(one.reason for one in found if one.reason).most_common():
        print(f"no score: {count} ({reason})")
    return {
        "questions": len(questions),
        "scored": len(scores),
        "mean": round(sum(scores) / max(1, len(scores)), 3),
        "told_apart": whole,
        "seconds": round(seconds, 1),
    }


def _print_kinds(found: list[Strength]) -> None:
    counts = Counter((tried.kind, tried.outcome) for one in found for tried in one.tried)
    print(f"{'near-misses':<12}" + "".join(f"{out.value:>12}" for out in NearMissOutcome))
    for kind in Kind:
        print(f"{kind.value:<12}" + "".join(f"{counts[kind, out]:>12}" for out in NearMissOutcome))


if __name__ == "__main__":
    main()
