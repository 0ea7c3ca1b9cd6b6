"""What Dagster costs: loading, an idle web interface, a lifecycle beside a script, locks, cancels.

``python -m benchmarks.operations`` measures all of it; ``cancels`` also shows that no process of a
cancelled run stays, whatever stage it was in, and that the next run goes on.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cancelling import cancels
from benchmarks.lifecycle_setting import run_config
from benchmarks.measuring import measure_parts
from benchmarks.roots import environment
from benchmarks.timed_run import timed
from pipelines.lifecycle import CONFIG as DEMO
from text2sql.common.checkout import CHECKOUT
from text2sql.common.guard import descendants

_LOCKED = ("database is locked", "unable to open database file")
_LOAD = "from pipelines.definitions import defs; defs.get_repository_def().load_all_definitions()"


def load_time(folder: Path, times: int = 5) -> dict[str, Any]:
    """Load the code location in a new process, again and again; beside a bare Dagster."""
    bare = [timed([sys.executable, "-c", "import dagster"], folder) for _ in range(times)]
    rows = [timed([sys.executable, "-c", _LOAD], folder) for _ in range(times)]
    return {
        "times": times,
        "median_s": _median(rows, "wall_s"),
        "processor_s": _median(rows, "cpu_s"),
        "import_dagster_alone_s": _median(bare, "wall_s"),
        "import_dagster_alone_processor_s": _median(bare, "cpu_s"),
    }


def _median(rows: list[dict[str, Any]], name: str) -> float:
    return round(statistics.median(row[name] for row in rows), 2)


def idle_memory(folder: Path, settled: float = 30.0) -> dict[str, Any]:
    """Start the web interface with its daemon, and see what it holds when nothing happens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "pipelines.ui", "--port", str(port)]
    started = time.perf_counter()
    with (folder / "ui.log").open("w") as log:
        child = subprocess.Popen(
            command, cwd=CHECKOUT, env=environment(folder), stdout=log, stderr=log
        )
    try:
        while not _listens(port):
            time.sleep(0.1)
        ready = time.perf_counter() - started
        time.sleep(settled)
        sizes = {pid: _memory(pid) for pid in (child.pid, *descendants(child.pid))}
    finally:
        child.terminate()
        child.wait(60)
    return {
        "ready_s": round(ready, 1),
        "processes": len(sizes),
        "private_mb": round(sum(private for private, _ in sizes.values()), 1),
        "shared_counted_once_mb": round(sum(share for _, share in sizes.values()), 1),
    }


def overhead(folder: Path, times: int = 1) -> dict[str, Any]:
    """Run the demo's lifecycle and a day's answers by a script and by Dagster, in turn."""
    rows: dict[str, list[dict[str, Any]]] = {"script": [], "dagster": []}
    for number in range(times):
        root = folder / f"script-{number}"
        script = [sys.executable, "-m", "benchmarks.lifecycle_script", str(root), str(DEMO)]
        rows["script"].append(timed(script, root))
        root = folder / f"dagster-{number}"
        rows["dagster"].append(timed([sys.executable, "-m", "pipelines.lifecycle"], root))
    _require_whole([row for side in rows.values() for row in side])
    return {
        "times": times,
        **rows,
        **_more(rows["dagster"], rows["script"], "wall"),
        **_more(rows["dagster"], rows["script"], "cpu"),
    }


def _require_whole(rows: list[dict[str, Any]]) -> None:
    """Refuse to compare runs of which one ended before its end."""
    ended = [row for row in rows if row["status"]]
    if ended:
        sys.exit(f"A run ended with status {ended[0]['status']}:\n{ended[0]['output']}")


def _more(rows: list[dict[str, Any]], script: list[dict[str, Any]], kind: str) -> dict[str, float]:
    """Return what is more beside the script, in seconds and of the whole script, without training.

    Training is the same program in both, and takes what its rollouts happen to take.
    """
    every = [
        statistics.median(one[f"{kind}_s"] - one[f"training_{kind}_s"] for one in side)
        for side in (rows, script)
    ]
    more = every[0] - every[1]
    whole = _median(script, f"{kind}_s")
    return {f"more_{kind}_s": round(more, 1), f"more_{kind}_percent": round(100 * more / whole, 1)}


def runs_in_a_row(folder: Path, count: int = 10) -> dict[str, Any]:
    """Run the whole lifecycle and a day's answers again and again with SQLite storage.

    Each run has a training run of its own, so that its policy is trained and evaluated anew.
    """
    demo, root, rows, locks = _tiny(folder), folder / "root", [], 0
    for number in range(count):
        rows.append(timed([*demo, "--run", f"run-{number}", "--seed", str(number)], root))
        logs = [file.read_text(errors="replace") for file in (root / "logs").glob("*.log")]
        locks += sum(log.count(words) for log in [*logs, rows[-1]["output"]] for words in _LOCKED)
    said = [row["output"].replace(str(folder), "FOLDER") for row in rows if row["status"]]
    ended = [words[-300:] for words in said]
    refused = [words for words in ended if _REFUSED in words]
    return {
        "runs": count,
        "failed": len(ended) - len(refused),
        "refused_by_gate": len(refused),
        "lock_errors": locks,
        "wall_s": [row["wall_s"] for row in rows],
        "home_mb": round(_size(root / "dagster_home") / 1e6, 1),
        "why_not_zero": ended,
    }


_REFUSED = "A check failed. model_card: "
"""How a run ends whose policy is not to be promoted: as it should."""


def _tiny(folder: Path) -> list[str]:
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(run_config(tiny=True)))
    return [sys.executable, "-m", "pipelines.lifecycle", "--config", str(config)]


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _memory(pid: int) -> tuple[float, float]:
    """Return the MB that a process holds alone, and its part of what it shares."""
    values: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, size = line.partition(":")
        values[name] = int(size.split()[0])
    alone = values["Private_Clean"] + values["Private_Dirty"]
    return alone / 1024, (values["Pss"] - alone) / 1024


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    measure_parts(
        "What Dagster costs",
        {
            "load_time": load_time,
            "idle_memory": idle_memory,
            "overhead": overhead,
            "cancels": cancels,
            "runs_in_a_row": runs_in_a_row,
        },
    )
