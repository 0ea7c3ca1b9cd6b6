"""A sampling process that is killed again and again: nothing finished is lost or asked twice.

``python -m benchmarks.rollout_kills FOLDER URL COUNT`` is the process that gets killed.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.rollout_server import RolloutServer
from benchmarks.rollout_setting import Drawing
from text2sql.common.checkout import CHECKOUT

STORE = "killed.jsonl"
TOGETHER = 16


def measure(
    folder: Path, kills: int = 20, count: int = 3000, seed: int = 0, delay: float = 0.02
) -> dict[str, Any]:
    """Kill a sampling process at random moments of its first second, then let it finish.

    A rollout is finished once its whole line is in the store. ``lost`` counts those that a later
    state of the store lacks, ``repeated`` those that were asked again or stored twice.
    """
    chance = random.Random(seed)
    path = folder / STORE
    history: list[dict[str, int]] = []
    lost = 0
    with RolloutServer("--delay", str(delay)) as server:
        finished: dict[str, int] = {}
        for _ in range(kills):
            before = server.seen()["requests"]
            child = _start(folder, server.url, count)
            while child.poll() is None and server.seen()["requests"] == before:
                time.sleep(0.02)
            time.sleep(chance.uniform(0.0, 1.0))
            ended = child.poll() is not None
            child.send_signal(signal.SIGKILL)
            child.wait()
            stored = _stored(path)
            lost += len(finished.keys() - stored.keys())
            openings = server.seen()["openings"]
            finished |= {key: openings[key] for key in stored if key not in finished}
            history.append({"stored": len(stored), "ended_before_the_kill": ended})
        if _start(folder, server.url, count).wait() != 0:
            raise RuntimeError("the sampling process failed")
        asked = server.seen()["openings"]
    stored = _stored(path)
    return {
        "kills": kills,
        "kills_while_sampling": sum(not row["ended_before_the_kill"] for row in history),
        "stored_at_each_kill": [row["stored"] for row in history],
        "rollouts": len(stored),
        "missing": count - len(stored),
        "lost": lost + len(finished.keys() - stored.keys()),
        "stored_twice": sum(number > 1 for number in stored.values()),
        "repeated": sum(asked[key] > number for key, number in finished.items()),
        "asked_again_as_in_flight": sum(asked.values()) - count,
        "in_flight_at_most": kills * TOGETHER,
    }


def _start(folder: Path, url: str, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.rollout_kills", str(folder), url, str(count)]
    return subprocess.Popen(command, cwd=CHECKOUT)


def _stored(path: Path) -> Counter[str]:
    """Count the whole lines of each question, by its number."""
    if not path.exists():
        return Counter()
    lines = [line for line in path.read_bytes().splitlines(True) if line.endswith(b"\n")]
    return Counter(json.loads(line)["key"].rpartition("/")[2] for line in lines)


if __name__ == "__main__":
    Drawing(Path(sys.argv[1]), sys.argv[2], STORE, int(sys.argv[3]), concurrency=TOGETHER).run()
