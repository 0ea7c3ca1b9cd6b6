"""prime-rl's two metrics files, followed while they grow and merged into one."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from text2sql.training.metrics import Metrics, MetricsFile, MetricsTail, finite_or_none
from text2sql.training.prime_rl.toml import EVAL_SOURCE, ORCHESTRATOR_METRICS, TRAINER_METRICS

KL_ALARM = 0.015
"""Above this divergence between the trainer's and the server's probabilities a run goes wrong."""

SETTLE_SECONDS = 2.0
"""The processes append several rows per step: rows within this time become one line."""

_MUST_BE_FINITE = ("loss", "grad_norm", "kl", "entropy")
_ALL, _EFFECTIVE = "train/agg/all/agent", "train/agg/effective/agent"
ORCHESTRATOR_NAMES = {
    f"{_EFFECTIVE}/reward/mean": "reward",
    f"{_ALL}/metrics/exact_match/mean": "exact_match",
    f"{_ALL}/metrics/write_attempts/mean": "write_attempts",
    f"{_ALL}/metrics/truncated/mean": "truncated",
    f"{_ALL}/metrics/turns/mean": "turns",
    "off_policy/mean": "off_policy_lag",
    f"eval/{EVAL_SOURCE}/effective/agent/metrics/exact_match/mean": "eval_exact_match",
}
TRAINER_NAMES = {
    "loss/mean": "loss",
    "entropy/all/mean": "entropy",
    "mismatch_kl/all/mean": "kl",
    "optim/grad_norm": "grad_norm",
    "optim/lr": "learning_rate",
    "perf/throughput": "tokens_per_second",
    "time/step": "seconds",
}
_LAST_STEPS = 20
_LONGEST_STEP = 86_400.0


class MergedMetrics:
    """Writes both processes' rows to one file, under the names that all trainers here use.

    A line holds what arrived for a step since its previous line, so a reader merges the lines of a
    step, later over earlier. ``kl`` is the divergence between trainer and inference server,
    ``off_policy_lag`` counts versions of the weights, ``seconds`` are those of the trainer's step;
    ``estimated_end`` is a UTC instant.
    """

    def __init__(self, run_dir: Path, output: Path, steps: int) -> None:
        """Follow the files in prime-rl's run directory; ``steps`` is where the run ends."""
        self._tails = (
            (MetricsTail(run_dir / ORCHESTRATOR_METRICS), ORCHESTRATOR_NAMES),
            (MetricsTail(run_dir / TRAINER_METRICS), TRAINER_NAMES),
        )
        self._file = MetricsFile(output)
        self._steps = steps
        self._last_seconds: deque[float] = deque(maxlen=_LAST_STEPS)
        self._waiting: dict[int, Metrics] = {}
        self._arrived: dict[int, float] = {}

    def poll(self) -> list[Metrics]:
        """Read what is new, up to 256 KiB of each file; return the lines that were written."""
        self._read()
        return self._write(SETTLE_SECONDS)

    def close(self) -> Iterator[Metrics]:
        """Write what is left, yield its lines, and close the file."""
        while self._read():
            yield from self._write(SETTLE_SECONDS)
        yield from self._write(0.0)
        self._file.close()

    def _read(self) -> bool:
        """Read what is new; say whether there is more at once."""
        more = False
        for tail, names in self._tails:
            for row in tail.poll():
                self._take(row, names)
            more = more or tail.more
        for step in sorted(self._waiting)[:-_LAST_STEPS]:  # a backlog: these steps are complete
            self._arrived[step] = -math.inf
        return more

    def _take(self, row: Metrics, names: dict[str, str]) -> None:
        found = {
            name: finite_or_none(row[key])
            for key, name in names.items()
            if type(row.get(key)) in (int, float)
        }
        step = row.get("step")
        if not found or not isinstance(step, int):
            return
        self._waiting.setdefault(step, {"step": step}).update(found)
        self._arrived.setdefault(step, time.monotonic())
        if (seconds := found.get("seconds")) is not None:
            # The clock may have jumped during a step.
            self._last_seconds.append(min(max(seconds, 0.0), _LONGEST_STEP))
            mean = sum(self._last_seconds) / len(self._last_seconds)
            left = max(0, self._steps - step) * mean
            end = datetime.now(UTC) + timedelta(seconds=left)
            self._waiting[step]["seconds_left"] = round(left, 1)
            self._waiting[step]["estimated_end"] = end.isoformat(timespec="seconds")

    def _write(self, settled: float) -> list[Metrics]:
        now = time.monotonic()
        due = sorted(step for step, since in self._arrived.items() if now - since >= settled)
        lines = [self._waiting.pop(step) for step in due]
        for step in due:
            del self._arrived[step]
        if lines:
            self._file.append(*lines)
        return lines


def shown(line: Metrics, steps: int) -> str:
    """Return a line of the metrics as a sentence for a log, with its alarm if it has one."""
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in line.items()
        if name not in ("step", "seconds_left", "learning_rate")
    )
    alarm = alarm_of(line)
    return f"step {line['step']} of {steps}: {numbers}" + (f". {alarm}" if alarm else "")


def alarm_of(line: Metrics) -> str:
    """Return the alarm for a step: its divergence is too high or a number is not finite."""
    broken = [
        name.replace("_", " ") for name in _MUST_BE_FINITE if name in line and line[name] is None
    ]
    if broken:
        return (
            f"ALARM: {' and '.join(broken)} of this step is not a finite number: the weights may "
            "be ruined; cancel, lower the learning rate, and resume from the last checkpoint"
        )
    value = line.get("kl")
    if not isinstance(value, int | float) or value <= KL_ALARM:
        return ""
    return (
        f"ALARM: the KL mismatch is {value:.4f}, above {KL_ALARM}: trainer and inference server "
        "disagree about the tokens' probabilities; check the off-policy lag and the learning rate"
    )
