"""Scoring and voting of stored rollouts: time and memory as their number grows.

Rollouts over 1,534 questions (BIRD's dev split), 32 each at the end, with transcripts of about
5 KB; they are read as an evaluation reads them and scored as those of two policies. Each size is
measured in a process of its own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.measuring import peak_mb
from text2sql.evaluation.rollout_scores import PolicyRollouts, score_policies
from text2sql.evaluation.scores import BASE, TRAINED
from text2sql.questions import Question
from text2sql.rollouts.draw import vote_of
from text2sql.rollouts.located import by_question, read_located
from text2sql.rollouts.store import Rollout

QUESTIONS = 1534
SAMPLES = 32
REVISION = "0123456789abcdef"
SIZES = (1_000, 5_000, 10_000, 25_000, QUESTIONS * SAMPLES, 50_000)


def write_store(path: Path, count: int) -> None:
    """Write ``count`` rollouts as a store has them; results agree now and then."""
    chance = random.Random(count)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            sample, question = divmod(number, QUESTIONS)
            file.write(json.dumps(_rollout(question, sample, chance).to_dict()) + "\n")


def _rollout(question: int, sample: int, chance: random.Random) -> Rollout:
    right = chance.random() < 0.5
    answer = 0 if right else chance.randrange(1, 6)
    sql = f"SELECT T1.name FROM customers AS T1 WHERE T1.id = {answer} AND T1.q = {question}"
    sql += f" -- {sql} {sql}"
    messages = [{"role": "tool", "content": chance.randbytes(300).hex()} for _ in range(8)]
    return Rollout(
        key=f"dev/{question}",
        sample=sample,
        policy="policy",
        policy_revision=REVISION,
        prompt_revision="fedcba9876543210",
        mode="agentic",
        sampling={"temperature": 1.0, "top_p": 1.0, "seed": None},
        messages=messages,
        calls=[{"name": "run_sql", "seconds": 0.01, "output_chars": 600}] * 4,
        sql=sql,
        status="ok",
        verdict="match" if right else "wrong",
        digest=f"{question:016x}{answer:016x}",
        row_count=1,
        reward=1.0 if right else 0.1,
        write_attempts=0,
        turns=5,
        prompt_tokens=4000,
        completion_tokens=400,
        seconds=3.5,
        stop_reason="submit",
    )


def score(path: Path) -> dict[str, Any]:
    """Read a store, score it against its own first samples, and vote on every question."""
    before = peak_mb()
    started = perf_counter()
    questions = [Question(f"dev/{n}", "db", path, "?") for n in range(QUESTIONS)]
    keys = [question.key for question in questions]
    rollouts = read_located([path], keys, SAMPLES + 1).rollouts
    read = perf_counter()
    k = max(1, len(rollouts) // QUESTIONS)
    greedy = [rollout for rollout in rollouts if rollout.sample == 0]
    base, trained = (PolicyRollouts(name, REVISION, greedy, rollouts) for name in (BASE, TRAINED))
    scores = score_policies(questions, base, trained, k)
    agreed = sum(vote_of(group).consensus for _, group in by_question(rollouts))
    ended = perf_counter()
    return {
        "rollouts": len(rollouts),
        "store_mb": round(path.stat().st_size / 1e6),
        "read_seconds": round(read - started, 2),
        "score_and_vote_seconds": round(ended - read, 2),
        "seconds": round(ended - started, 2),
        "memory_before_mb": round(before),
        "memory_peak_mb": round(peak_mb()),
        "questions_with_consensus": agreed,
        "scores": len(scores.scores),
    }


def measure(work: Path, sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """Measure each size in a fresh process."""
    found = []
    for size in sizes:
        path = work / f"{size}.jsonl"
        write_store(path, size)
        command = [sys.executable, "-m", "benchmarks.voting_scale", str(path)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(output))
        path.unlink()
    return found


if __name__ == "__main__":
    print(json.dumps(score(Path(sys.argv[1]))))
