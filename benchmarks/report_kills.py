"""A process that answers a day and is killed again and again: no half answer, none twice.

``python -m benchmarks.report_kills ROOT REPORTING SERVER COUNT VOTES`` is what gets killed.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.report_setting import Project
from benchmarks.rollout_server import RolloutServer
from text2sql.common.checkout import CHECKOUT

DAY = date(2026, 3, 2)


def measure(
    folder: Path,
    reporting: str,
    kills: int = 20,
    count: int = 200,
    votes: int = 8,
    delay: float = 0.02,
    seed: int = 0,
) -> dict[str, Any]:
    """Kill a process that answers a day at random moments of a second, then let it finish.

    ``lost`` counts published answers that a later state lacks, ``rewritten`` those that changed,
    ``half`` and ``twice`` those that were ever found not whole, or two for one question.
    """
    chance = random.Random(seed)
    project = Project(folder, reporting, count, votes)
    published: dict[str, str] = {}
    found = {"half": 0, "twice": 0, "lost": 0, "rewritten": 0}
    stored = []
    with RolloutServer("--delay", str(delay)) as server:
        project.prepare(server.url)
        for _ in range(kills):
            _kill_one(project, server, chance.uniform(0.0, 1.0))
            now = project.published()
            found["lost"] += len(published.keys() - now.keys())
            found["rewritten"] += sum(now.get(key, at) != at for key, at in published.items())
            found["half"] += project.halves()
            found["twice"] += project.twice()
            published = now
            stored.append(len(now))
        if _start(project, server).wait() != 0:
            raise RuntimeError("the process that answers failed")
        openings = server.seen()["openings"]
    return {
        "kills": kills,
        "answers_at_each_kill": stored,
        "answers": len(project.published()),
        "missing": count - len(project.published()),
        **found,
        "half_at_the_end": project.halves(),
        "twice_at_the_end": project.twice(),
        "candidates": sum(openings.values()),
        "candidates_needed": count * votes,
    }


def _kill_one(project: Project, server: RolloutServer, seconds: float) -> None:
    """Start the process, wait for its first request and then so many seconds, and kill it."""
    before = server.seen()["requests"]
    child = _start(project, server)
    while child.poll() is None and server.seen()["requests"] == before:
        time.sleep(0.02)
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    child.wait()


def _start(project: Project, server: RolloutServer) -> subprocess.Popen[bytes]:
    about = [str(project.root), project.reporting, server.url, str(project.count)]
    command = [sys.executable, "-m", "benchmarks.report_kills", *about, str(project.votes)]
    return subprocess.Popen(command, cwd=CHECKOUT)


if __name__ == "__main__":
    root, reporting, server, count, votes = sys.argv[1:]
    asyncio.run(Project(Path(root), reporting, int(count), int(votes)).answer(server, DAY))
