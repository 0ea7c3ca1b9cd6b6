"""A command on an artifact root, its seconds by the clock and of the CPUs, training's apart.

How long a training takes differs from run to run, since no two draw the same rollouts; what is
compared is the rest.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import cpu_seconds
from benchmarks.roots import environment
from text2sql.common.checkout import CHECKOUT
from text2sql.common.guard import descendants

_TRAINING = b"text2sql.training.trl.train"


class Processes:
    """What the processes below a command used: processor time, and when training was there."""

    def __init__(self) -> None:
        self.used: dict[int, float] = {}
        self.training: dict[int, list[float]] = {}

    def look(self, pid: int) -> None:
        """Note the processor time of a process and of all below it."""
        for one in (pid, *descendants(pid)):
            try:
                self.used[one] = max(self.used.get(one, 0.0), cpu_seconds([one]))
                command = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has just ended
            if _TRAINING in command[:4]:
                self.training.setdefault(one, []).append(time.perf_counter())

    def seconds(self) -> dict[str, float]:
        """Return the processor time of all, and both times of training."""
        alone = {pid: times for pid, times in self.training.items() if self.used.get(pid, 0) > 1}
        return {
            "cpu_s": round(sum(self.used.values()), 2),
            "training_cpu_s": round(sum(self.used[pid] for pid in alone), 2),
            "training_wall_s": round(sum(times[-1] - times[0] for times in alone.values()), 2),
        }


def timed(command: list[str], root: Path) -> dict[str, Any]:
    """Run a command on an artifact root; its processes are looked at twice a second."""
    started, processes = time.perf_counter(), Processes()
    with (root.parent / f"{root.name}.txt").open("w+") as output:
        child = subprocess.Popen(
            command, cwd=CHECKOUT, env=environment(root), stdout=output, stderr=output
        )
        while child.poll() is None:
            processes.look(child.pid)
            time.sleep(0.05 if time.perf_counter() - started < 20 else 0.5)
        wall = time.perf_counter() - started
        output.seek(0)
        text = output.read()
    if child.returncode:
        print(text[-2000:], file=sys.stderr)
    kept = {"output": text[-2000:] if child.returncode else ""}
    return {"status": child.returncode, "wall_s": round(wall, 2)} | processes.seconds() | kept
