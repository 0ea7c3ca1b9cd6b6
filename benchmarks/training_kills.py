"""A GRPO run with prime-rl, stopped at random moments: what is left of it, and for how long.

``python -m benchmarks.training_kills`` starts the launcher as a Dagster step does, with stand-ins
for prime-rl's programs and for ``nvidia-smi``, and stops it in one of five ways at a random moment:
of its first seconds for one in five, of the first seconds after all ports are held for the others.
``running`` counts the moments at which ports were held; ``seconds`` is how long it then takes until
no process of the run is there and no port is held; ``left`` counts the moments at which something
was there after the grace and 20 s more. Progress is of a run that is watched to its end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import measure_parts
from text2sql.common.checkout import CHECKOUT
from text2sql.common.processes import GuardedProcess
from text2sql.training.prime_rl.metrics import MergedMetrics

GRACE_SECONDS = 10.0
ALLOWED_SECONDS = 20.0
MOMENTS = 50
WAYS = ("cancel", "kill the launcher", "kill rl", "crash", "cancel one that ignores it")


def kills(folder: Path, seed: int = 6) -> dict[str, Any]:
    """Stop a run at so many random moments, each in the next of the ways."""
    chance = random.Random(seed)
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    left = running = 0
    for number in range(MOMENTS):
        way, early = WAYS[number % len(WAYS)], chance.random() < 0.2
        held, found = _stop_once(folder / str(number), way, chance.uniform(0.0, 4.0), early)
        taken[way].append(found)
        left += found > GRACE_SECONDS + ALLOWED_SECONDS
        running += held
    return {
        "moments": MOMENTS,
        "running": running,
        "grace_seconds": GRACE_SECONDS,
        "left": left,
        "seconds": {way: _spread(each) for way, each in taken.items()},
    }


def _stop_once(folder: Path, way: str, moment: float, early: bool) -> tuple[bool, float]:
    """Start a run and stop it after so many seconds.

    Returns whether it held ports then, and how long anything of it was there afterwards.
    """
    folder.mkdir(parents=True)
    place = _place(folder)
    behaviour: dict[str, Any] = {"step_seconds": 0.3, "stubborn": way.endswith("ignores it")}
    if way == "crash":
        behaviour["crash"] = {"torchrun": [1 + int(moment), "boom", 1]}
    place.behave(**behaviour)
    environment = place.environment | {"PYTHONPATH": str(CHECKOUT)}
    command = place.command(steps=100)
    with GuardedProcess(command, folder / "log", environment, GRACE_SECONDS) as run:
        while not early and len(place.busy_ports()) < 3 and run.wait(0.05) is None:
            pass
        held = bool(place.busy_ports())
        if way == "crash":
            run.wait(120)
        else:
            time.sleep(moment)
        begun = time.monotonic()
        _end(place, run, way)
        while place.processes() or place.busy_ports():
            if time.monotonic() - begun > GRACE_SECONDS + 2 * ALLOWED_SECONDS:
                break
            time.sleep(0.05)
        return held, time.monotonic() - begun


def _end(place: Any, run: GuardedProcess, way: str) -> None:
    """End a run in the way; a cancel is what Dagster's step does."""
    victims = {"kill the launcher": "training.prime_rl.launch", "kill rl": "prime_rl.py\0rl\0"}
    if way in victims:
        for pid in place.processes():
            if victims[way].encode() in _command_line(pid) and pid != run.pid:
                os.kill(pid, signal.SIGKILL)
                return
    if way != "crash":
        run.stop()


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 2), "most": round(max(values), 2)}


def progress(folder: Path) -> dict[str, Any]:
    """Watch a run to its end: from a row that prime-rl writes to the line that Dagster shows."""
    place = _place(folder)
    place.behave(step_seconds=0.5)
    environment = place.environment | {"PYTHONPATH": str(CHECKOUT)}
    shown: dict[int, float] = {}
    with GuardedProcess(place.command(steps=40), folder / "log", environment) as run:
        while run.wait(0.1) is None:
            for step in place.steps():
                shown.setdefault(step, time.time())
    rows = (place.run_dir / "metrics.trainer.jsonl").read_text(encoding="utf-8").splitlines()
    written: dict[int, float] = {}
    for row in map(json.loads, rows):
        written.setdefault(row["step"], row["time"])
    lags = [shown[step] - written[step] for step in sorted(set(shown) & set(written))]
    return {"steps": len(lags), "seconds": _spread(lags)}


def memory(folder: Path) -> dict[str, Any]:
    """Follow metrics files of more and more steps; the memory that this takes."""
    return {f"{steps}_steps_mib": _peak(folder / str(steps), steps) for steps in (1_000, 10_000)}


def _peak(folder: Path, steps: int) -> float:
    folder.mkdir(parents=True)
    metrics = MergedMetrics(folder, folder / "metrics.jsonl", steps)
    names: dict[str, Callable[[int], dict[str, Any]]] = {
        "metrics.trainer.jsonl": lambda step: {"loss/mean": 1.0, "time/step": 9.0, "step": step},
        "metrics.orchestrator.jsonl": lambda step: {"off_policy/mean": 1.0, "step": step},
    }
    padding = {f"perf/other_{number}": 1.0 for number in range(40)}
    for name, row in names.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row(step) | padding) + "\n" for step in range(1, steps + 1))
    tracemalloc.start()
    for _ in metrics.close():
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(peak / 2**20, 2)


def _place(folder: Path) -> Any:
    """Return a folder where prime-rl seems to be installed, as the tests have it."""
    sys.path.insert(0, str(CHECKOUT))
    from tests.support.prime_rl_place import Place

    return Place(folder)


if __name__ == "__main__":
    measure_parts(__doc__ or "", {"kills": kills, "progress": progress, "memory": memory})
