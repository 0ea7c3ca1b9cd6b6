"""``text2sql evaluate`` as people type it, against an official-style evaluator typed the same way.

Every time is that of a whole program, start-up included, the best of several rounds:

- ``official``: ``benchmarks.official_style``, one process; ``floor``: the same queries alone.
- ``one_worker``, ``two_workers``: the command without its cache; ``known``: with one worker and
  all results known from a run before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from time import sleep
from typing import Any

from benchmarks.measuring import seconds
from benchmarks.official_style import SEPARATOR
from text2sql.sandbox import cut_suffix

DATABASE = "superhero"
DEV_QUESTIONS = 1_534
_CLOCK_TICK = 2.1  # seconds; results on a file that changed a moment ago are not kept

Pair = tuple[str, str, str]
"""A database, a predicted query, and gold."""


def measure(bird: Path, work: Path, rounds: int) -> dict[str, Any]:
    """Measure every row; ``bird`` is the folder with mini-dev and predictions, Spider beside it."""
    databases = work / "databases"
    shutil.copytree(bird / "databases" / DATABASE, databases / DATABASE)
    files = _bird_pairs(bird)
    pairs = [pair for file in files for pair in file]
    distinct = [
        (name, _tagged(sql, at), _tagged(gold, at))
        for at, (name, sql, gold) in enumerate(islice(cycle(pairs), DEV_QUESTIONS))
    ]
    rows = {
        "13 prediction files in one": [_write(work, "one", pairs)],
        "1,534 distinct pairs": [_write(work, "distinct", distinct)],
        "13 runs, a file of 52 pairs each": [
            _write(work, f"run{at}", file) for at, file in enumerate(files)
        ],
    }
    spider = bird.parent / "spider"
    if spider.is_dir():
        shutil.copytree(spider / "database", databases, dirs_exist_ok=True)
        rows["Spider's light pairs"] = [_write(work, "spider", _spider_pairs(spider))]
    sleep(_CLOCK_TICK)
    start = {
        "ours": min(seconds(lambda: _evaluate(["--help"])) for _ in range(rounds)),
        "official": min(seconds(lambda: _run([sys.executable, "-c", ""])) for _ in range(rounds)),
    }
    return {
        "start_up_seconds": {name: round(value, 3) for name, value in start.items()},
        "rows": {name: _row(runs, databases, work, rounds, start) for name, runs in rows.items()},
    }


def _row(
    runs: Sequence[Path], databases: Path, work: Path, rounds: int, start: dict[str, float]
) -> dict[str, Any]:
    contestants = {
        "official": lambda run: _official(run, databases),
        "floor": lambda run: _official(run, databases, "--floor"),
        "one_worker": lambda run: _ours(run, databases, work, "--jobs", "1", "--no-cache"),
        "two_workers": lambda run: _ours(run, databases, work, "--jobs", "2", "--no-cache"),
        "known": lambda run: _ours(run, databases, work, "--jobs", "1"),
    }
    for run in runs:
        right, ours = contestants["official"](run), contestants["known"](run)
        if right != ours:
            raise SystemExit(f"{run}: {right} matches by the official style, {ours} by ours")
    best = {
        name: min(seconds(lambda: [one(run) for run in runs]) for _ in range(rounds))  # noqa: B023
        for name, one in contestants.items()
    }
    pairs = sum(len(json.loads(_questions(run).read_text())) for run in runs)
    own = best["one_worker"] - best["floor"] - len(runs) * (start["ours"] - start["official"])
    return {
        "pairs": pairs,
        "seconds": {name: round(value, 3) for name, value in best.items()},
        "own_ms_a_pair": round(1000 * own / pairs, 3),
        **{
            f"official_to_{name}": round(best["official"] / best[name], 2)
            for name in ("one_worker", "two_workers", "known")
        },
    }


def _bird_pairs(bird: Path) -> list[list[Pair]]:
    """Return the pairs of one database, a list for each published prediction file."""
    rows = json.loads((bird / "mini_dev_sqlite.json").read_text(encoding="utf-8"))
    asked = [(str(at), row["SQL"]) for at, row in enumerate(rows) if row["db_id"] == DATABASE]
    files = sorted((bird / "predictions_minidev").glob("*.json"))
    predicted = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [[(DATABASE, cut_suffix(sql[key]), gold) for key, gold in asked] for sql in predicted]


def _spider_pairs(spider: Path) -> list[Pair]:
    """Return Spider's gold queries as predictions of themselves, so that two texts run."""
    rows = json.loads((spider / "dev.json").read_text(encoding="utf-8"))
    return [(row["db_id"], _tagged(row["query"], 0), row["query"]) for row in rows]


def _tagged(sql: str, number: int) -> str:
    """Return the same query as another text."""
    return f"{sql.rstrip().rstrip(';')} /* {number} */"


def _write(work: Path, name: str, pairs: Sequence[Pair]) -> Path:
    """Write a questions file and its predictions."""
    questions = [
        {"question_id": at, "db_id": database, "question": "which?", "SQL": gold}
        for at, (database, _, gold) in enumerate(pairs)
    ]
    predictions = {str(at): f"{sql}{SEPARATOR}{name}" for at, (name, sql, _) in enumerate(pairs)}
    run = work / name
    _questions(run).write_text(json.dumps(questions), encoding="utf-8")
    _predictions(run).write_text(json.dumps(predictions), encoding="utf-8")
    return run


def _questions(run: Path) -> Path:
    return run.with_name(f"{run.name}.json")


def _predictions(run: Path) -> Path:
    return run.with_name(f"{run.name}_predictions.json")


def _official(run: Path, databases: Path, *options: str) -> int:
    module = [sys.executable, "-m", "benchmarks.official_style"]
    output = _run([*module, str(_questions(run)), str(_predictions(run)), str(databases), *options])
    return int(output.split()[0])


def _ours(run: Path, databases: Path, work: Path, *options: str) -> int:
    out = work / "scores.json"
    files = ["--questions", _questions(run), "--predictions", _predictions(run)]
    given = [*files, "--databases", databases, "--json", out, *options]
    _evaluate([str(one) for one in given], work)
    verdicts = json.loads(out.read_text(encoding="utf-8"))["verdicts"]
    return sum(one["verdict"] == "match" for one in verdicts)


def _evaluate(arguments: Sequence[str], cache: Path | None = None) -> None:
    command = str(Path(sys.executable).with_name("text2sql"))
    _run([command, "evaluate", *arguments], {} if cache is None else {"XDG_CACHE_HOME": str(cache)})


def _run(command: Sequence[str], more: dict[str, str] | None = None) -> str:
    # Compiled modules are kept, as on the machine of somebody who types the command.
    around = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | (more or {})
    done = subprocess.run(command, capture_output=True, text=True, env=around, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout
