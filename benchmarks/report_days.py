"""Days that are answered as real Dagster runs: one large one, many in a row, some side by side.

``python -m benchmarks.report_days ROOT DAY ...`` runs days one after the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.measuring import resident_mb
from benchmarks.report_setting import Project
from benchmarks.rollout_server import RolloutServer
from text2sql.common.checkout import CHECKOUT

FIRST = date(2026, 3, 2)
_LOCKED = ("database is locked", "unable to open database", "OperationalError", "deadlock")


def one_run(folder: Path, reporting: str, count: int = 200, votes: int = 8) -> dict[str, Any]:
    """Measure a run of many questions against a server that answers at once."""
    project = Project(folder, reporting, count, votes)
    with RolloutServer() as server:
        project.prepare(server.url)
        [run] = _run_all(project, [[FIRST]])
        requests = server.seen()["requests"]
    return {
        "questions": count,
        "votes": votes,
        "requests": requests,
        **run,
        "published": len(project.published()),
    }


def memory(folder: Path, reporting: str, count: int = 200, votes: int = 8) -> dict[str, Any]:
    """Measure the memory of this process while it answers one day and then another.

    On the first day each question's view is made, which every connection to SQLite then knows.
    ``growth_kb_a_question`` is what one more answer adds after the first quarter of a day.
    """
    project = Project(folder, reporting, count, votes)
    found = {}
    with RolloutServer() as server:
        project.prepare(server.url)
        for name, day in (("first_day", FIRST), ("second_day", FIRST + timedelta(days=1))):
            found[name] = _growth(_memory_of(project, server.url, day))
    return found


def _memory_of(project: Project, url: str, day: date) -> list[float]:
    """Answer a day; return the memory after each answer, in MB."""
    seen: list[float] = []
    asyncio.run(project.answer(url, day, lambda _: seen.append(resident_mb())))
    return seen


def _growth(seen: list[float]) -> dict[str, Any]:
    quarter = len(seen) // 4
    growth = (seen[-1] - seen[quarter]) * 1024 / (len(seen) - 1 - quarter)
    marks = [0, quarter, len(seen) // 2, 3 * quarter, len(seen) - 1]
    return {
        "resident_mb": {str(n + 1): round(seen[n], 1) for n in marks},
        "growth_kb_a_question": round(growth, 2),
    }


def many_runs(
    folder: Path,
    reporting: str,
    count: int = 20,
    votes: int = 4,
    row: int = 10,
    backfills: int = 3,
    days: int = 3,
) -> dict[str, Any]:
    """Run days in a row, and then backfills side by side that share two of their days."""
    project = Project(folder, reporting, count, votes)
    with RolloutServer() as server:
        project.prepare(server.url)
        in_a_row = _run_all(project, [[FIRST + timedelta(days=n) for n in range(row)]])
        starts = [FIRST + timedelta(days=row + n) for n in range(backfills)]
        spans = [[start + timedelta(days=n) for n in range(days)] for start in starts]
        at_once = _run_all(project, spans)
    runs = [*in_a_row, *at_once]
    return {
        "runs_in_a_row": row,
        "backfills_at_once": backfills,
        "days_of_each": days,
        "failed": sum(run["status"] != 0 for run in runs),
        "lock_errors": sum(run["lock_errors"] for run in runs),
        "seconds": [run["seconds"] for run in runs],
        "answers_twice": project.twice(),
        "half_answers": project.halves(),
    }


def _run_all(project: Project, spans: list[list[date]]) -> list[dict[str, Any]]:
    """Run spans of days side by side, each in a process of its own."""
    return [_ended(child) for child in [_start(project, span) for span in spans]]


def _start(project: Project, days: list[date]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.report_days", str(project.root)]
    command += [day.isoformat() for day in days]
    variables = {"TEXT2SQL_ROOT": str(project.root), "TEXT2SQL_REPORTING_URL": project.reporting}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | variables,
        cwd=CHECKOUT,
    )


def _ended(child: subprocess.Popen[str]) -> dict[str, Any]:
    output = child.communicate()[0]
    found: dict[str, Any] = {"status": child.returncode}
    found["lock_errors"] = sum(output.count(words) for words in _LOCKED)
    lines = output.strip().splitlines()
    if child.returncode:
        print(output[-2000:], file=sys.stderr)
        return found | {"seconds": None}
    return found | json.loads(lines[-1])


def _main(root: Path, days: list[str]) -> None:
    """Run the days; print how long it took, and what Dagster's logs say of locks."""
    from pipelines.home import open_instance
    from pipelines.runs.launch import CommandRuns

    questions = {"file": str(root / "questions.yaml"), "databases": str(root)}
    config = {"ops": {"report_questions": {"config": questions}}}
    log = root / "logs" / f"{days[0]}-{os.getpid()}.log"
    started = perf_counter()
    with open_instance(root) as instance, CommandRuns(instance, log) as runs:
        for day in days:
            runs.run("daily_answers", day, config)
    text = log.read_text(encoding="utf-8", errors="replace")
    for words in _LOCKED:
        if words in text:
            print(f"{log}: {words}")
    print(json.dumps({"seconds": round(perf_counter() - started, 1)}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2:])
