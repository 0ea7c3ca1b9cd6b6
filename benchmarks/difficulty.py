"""The difficulty filter at BIRD's size: 9,428 questions, 8 rollouts each, with a scripted policy.

The policy's replies are written in advance; agent, tools, sandbox, judge and store are the real
ones, and the transcripts have about 15 KB. Each size is sampled in a process of its own, as a
shard is, and then counted and filtered in another, so that each has its own peak of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks.measuring import peak_mb, surroundings, write
from text2sql.agent.settings import AgentSettings
from text2sql.judge.verdicts import GoldResult, run_gold
from text2sql.policy.base import Message, PolicyInfo, Reply, Sampling, ToolCall
from text2sql.questions import Question
from text2sql.rollouts.draw import RolloutPlan
from text2sql.rollouts.store import RolloutStore
from text2sql.sandbox import Sandbox
from text2sql.training.difficulty import Bounds, Tally, rate, select

SAMPLES = 8
SIZES = (100, 1_000, 9_428)
STORE = "rollouts.jsonl"
THOUGHTS = "The tables hold what the question asks for; a look at the rows tells more. " * 40
SCRIPT = """
CREATE TABLE city(id INTEGER PRIMARY KEY, name TEXT, country TEXT, population INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
INSERT INTO city SELECT i, 'city ' || i, 'country ' || i % 40, i * 37 % 5000 FROM n;
"""


class ScriptedPolicy:
    """Looks around with three calls and submits; a question's number says how often it is right."""

    def __init__(self) -> None:
        self.info = PolicyInfo("scripted", "scripted")
        self._dice = Random(1)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Return the next reply of the script."""
        turn = sum(message["role"] == "assistant" for message in messages)
        number = int(messages[1]["content"].split()[-1])
        right = self._dice.random() < number % 11 / 10
        name, arguments = (
            ("inspect_schema", {}),
            ("sample_rows", {"table": "city"}),
            ("run_sql", {"sql": f"SELECT * FROM city WHERE id > {number} LIMIT 20"}),
            ("submit", {"sql": _gold(number) if right else "SELECT COUNT(*) FROM city"}),
        )[min(turn, 3)]
        text = json.dumps(arguments)
        call = {"id": "c", "type": "function", "function": {"name": name, "arguments": text}}
        message = {"role": "assistant", "content": THOUGHTS, "tool_calls": [call]}
        calls = (ToolCall("c", name, text),)
        return Reply(message, THOUGHTS, calls, "tool_calls", False, 2000, 150)

    async def close(self) -> None:
        """Free nothing."""


def _gold(number: int) -> str:
    return f"SELECT name FROM city WHERE id = {number % 2000 + 1}"


def material(work: Path, count: int, box: Sandbox) -> tuple[list[Question], dict[str, GoldResult]]:
    """Return questions on a small database, and their gold results."""
    database = work / "cities.sqlite"
    if not database.exists():
        with sqlite3.connect(database) as connection:
            connection.executescript(SCRIPT)
    questions = [
        Question(f"train/{n}", "cities", database, f"question {n}", sql=_gold(n))
        for n in range(count)
    ]
    return questions, {question.key: run_gold(question, box) for question in questions}


def sample(work: Path, count: int) -> dict[str, Any]:
    """Draw all rollouts into one store, as one shard does."""
    with Sandbox() as box:
        questions, golds = material(work, count, box)
        before, started = peak_mb(), perf_counter()
        plan = RolloutPlan(ScriptedPolicy(), box, AgentSettings(), Sampling(1.0), SAMPLES, golds)
        asyncio.run(plan.draw(questions, RolloutStore(work / STORE)))
        seconds = perf_counter() - started
    rollouts = count * SAMPLES
    return {
        "seconds": round(seconds, 1),
        "rollouts_per_second": round(rollouts / seconds, 1),
        "store_mb": round((work / STORE).stat().st_size / 1e6, 1),
        "memory_before_mb": round(before),
        "memory_peak_mb": round(peak_mb()),
    }


def filter_all(work: Path, count: int) -> dict[str, Any]:
    """Count the rollouts, rate the questions and choose the prompts."""
    with Sandbox() as box:
        questions, golds = material(work, count, box)
    before, started = peak_mb(), perf_counter()
    tally = Tally(RolloutStore(work / STORE).scan())
    ratings = rate(questions, golds, tally, Bounds())
    prompts = select(questions, ratings, seed=1)
    return {
        "rollouts": len(tally),
        "prompts": len(prompts),
        "seconds": round(perf_counter() - started, 2),
        "memory_before_mb": round(before),
        "memory_peak_mb": round(peak_mb()),
    }


STAGES = {"sample": sample, "filter": filter_all}


def measure(count: int) -> dict[str, Any]:
    """Sample and filter so many questions, each in a fresh process."""
    found: dict[str, Any] = {"questions": count, "rollouts": count * SAMPLES}
    with TemporaryDirectory() as folder:
        for stage in STAGES:
            command = [sys.executable, "-m", "benchmarks.difficulty", "--stage", stage]
            command += ["--work", folder, "--questions", str(count)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[stage] = json.loads(output)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sizes that were asked for; print and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.difficulty", description=__doc__)
    parser.add_argument("--questions", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--out", type=Path, help="write the numbers there as JSON")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        print(json.dumps(STAGES[options.stage](options.work, options.questions[0])))
        return
    found = surroundings() | {"sizes": [measure(count) for count in options.questions]}
    write(found, options.out)


if __name__ == "__main__":
    main()
