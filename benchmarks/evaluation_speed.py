"""Evaluation of published predictions against an evaluator in the official style, and a floor.

All of them use the same number of processes, started before the clock, on the same questions:

- ``official``: for every pair a new connection, prediction then gold, in a thread that is given
  up after a timeout, as BIRD's evaluator does.
- ``floor``: every distinct query once, on connections that stay open, nothing compared.
- ``ours``: the product, with no results known; ``known``: once more, with all of them known.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import cpu_seconds, seconds
from benchmarks.official_style import TIMEOUT, matches, run_only
from text2sql.evaluation.predictions.score import score_predictions
from text2sql.judge.known_results import KnownResults
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox, cut_suffix

DATABASE = "superhero"

Predictions = dict[str, dict[str, str]]
"""File name to SQL by question key."""


def read_material(bird: Path, work: Path) -> tuple[list[Question], Predictions]:
    """Read the questions of one database and all prediction files; work on a copy."""
    database = work / f"{DATABASE}.sqlite"
    shutil.copy(bird / "databases" / DATABASE / f"{DATABASE}.sqlite", database)
    rows = json.loads((bird / "mini_dev_sqlite.json").read_text(encoding="utf-8"))
    questions = [
        Question(str(at), DATABASE, database, row["question"], sql=row["SQL"])
        for at, row in enumerate(rows)
        if row["db_id"] == DATABASE
    ]
    predictions = {}
    for path in sorted((bird / "predictions_minidev").glob("*.json")):
        sql = json.loads(path.read_text(encoding="utf-8"))
        predictions[path.name] = {q.key: cut_suffix(sql[q.key]) for q in questions}
    return questions, predictions


_open: dict[str, sqlite3.Connection] = {}


def run_once(database: str, sql: str) -> None:
    """Run a query on this process's connection and fetch its rows."""
    if database not in _open:
        _open[database] = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)
    run_only(_open[database], sql)


class Comparison:
    """The material and the warm processes of all contestants."""

    def __init__(self, bird: Path, work: Path, pool: Any, sandbox: Sandbox) -> None:
        self.work, self.pool, self.sandbox = work, pool, sandbox
        self.questions, self.predictions = read_material(bird, work)
        self.database = str(self.questions[0].database)
        self.gold = {question.key: question.sql for question in self.questions}
        self.pairs = [
            (sql[key], self.gold[key]) for sql in self.predictions.values() for key in self.gold
        ]

    def cost(self, work: Callable[[], Any]) -> tuple[float, float]:
        """Return the wall clock and the processor time of one call, over all processes."""
        workers = [worker.process.pid for worker in self.sandbox._alive]
        processes = [os.getpid(), *workers, *(child.pid for child in self.pool._pool)]
        before = cpu_seconds(processes)
        return seconds(work), cpu_seconds(processes) - before

    def official(self) -> list[bool]:
        """Evaluate every pair in the official style."""
        return self.pool.starmap(partial(matches, self.database), self.pairs, chunksize=1)

    def floor(self) -> None:
        """Run every distinct query once."""
        distinct = list(dict.fromkeys(sql for pair in self.pairs for sql in pair))
        work = partial(run_once, self.database)
        for _ in self.pool.imap_unordered(work, distinct, chunksize=4):
            pass

    def ours(self, cache: str) -> list[bool]:
        """Score every file with the product; results are kept in the folder ``cache``."""
        known = KnownResults(self.work / cache)
        limits = Limits(seconds=TIMEOUT)
        scores = [
            score_predictions(self.questions, sql, self.sandbox, limits, known=known)
            for sql in self.predictions.values()
        ]
        known.close()
        return [item.verdict is Verdict.MATCH for score in scores for item in score.scored]


def measure(bird: Path, work: Path, rounds: int, processes: int) -> dict[str, Any]:
    """Run all contestants in turn, several times; return each one's best and the ratios.

    With more than one process the longest query (about half of the floor's time) bounds the wall
    clock of all who run it once; the processor time shows what the rest costs.
    """
    with multiprocessing.Pool(processes) as pool, Sandbox(processes) as sandbox:
        contest = Comparison(bird, work, pool, sandbox)
        wanted = contest.official()  # also warms the file
        same = contest.ours(f"warm-{processes}") == wanted
        contest.floor()
        costs: dict[str, list[tuple[float, float]]] = {}
        for at in range(rounds):
            contestants: dict[str, Callable[[], Any]] = {
                "floor": contest.floor,
                "ours": partial(contest.ours, f"new-{processes}-{at}"),
                "known": partial(contest.ours, f"new-{processes}-{at}"),
                "official": contest.official,
            }
            for name, work_ in contestants.items():
                costs.setdefault(name, []).append(contest.cost(work_))
    return {
        "files": len(contest.predictions),
        "pairs": len(contest.pairs),
        "processes": processes,
        "identical_verdicts": same,
        "wall_clock": _ratios({name: [wall for wall, _ in found] for name, found in costs.items()}),
        "processor": _ratios({name: [used for _, used in found] for name, found in costs.items()}),
    }


def _ratios(times: dict[str, list[float]]) -> dict[str, Any]:
    """Compare each contestant's best round."""
    best = {name: min(found) for name, found in times.items()}
    return {
        "seconds": {name: [round(t, 3) for t in found] for name, found in times.items()},
        "official_to_ours": round(best["official"] / best["ours"], 2),
        "official_to_known": round(best["official"] / max(best["known"], 0.001), 1),
        "ours_to_floor": round(best["ours"] / best["floor"], 3),
    }
