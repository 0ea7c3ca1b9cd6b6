"""What Dagster shows of a training run: its steps while it trains, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.plots import plot, records
from resources.watching import Metrics
from text2sql.common.charts import FIRST, SECOND, Chart, Line, lines
from text2sql.common.counting import counted
from text2sql.training.prime_rl.progress import alarm_of
from text2sql.training.progress import objects_in

SHOWN = (
    *("step", "reward", "exact_match", "loss", "entropy", "kl", "off_policy_lag"),
    *("tokens_per_second", "seconds"),
)


def observer(context: dg.AssetExecutionContext) -> Callable[[Metrics], None]:
    """Return what shows each step under the asset while it runs."""

    def observe(metrics: Metrics) -> None:
        shown = {
            name: value
            for name, value in metrics.items()
            if _is_number(value) or name == "estimated_end"
        }
        if alarm := alarm_of(metrics):
            context.log.warning(f"Step {metrics.get('step')}: {alarm}.")
        context.log_event(
            dg.AssetObservation(
                asset_key=context.asset_key, partition=context.partition_key, metadata=shown
            )
        )

    return observe


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def read_metrics(folder: Path) -> list[Metrics]:
    """Return a run's metrics by step: what later lines say of a step replaces earlier lines."""
    path = folder / "metrics.jsonl"
    steps: dict[int, Metrics] = {}
    for line in objects_in(path.read_bytes()) if path.is_file() else ():
        if isinstance(step := line.get("step"), int):
            steps.setdefault(step, {}).update(line)
    return [steps[step] for step in sorted(steps)]


def describe_training(folder: Path, record: dict[str, Any], reused: bool) -> dict[str, Any]:
    """Return the metadata of a trained policy: how it went, and all that it was made from."""
    metrics = read_metrics(folder)
    return {
        "what happened": _summary(record, metrics, reused),
        **record.get("reported", {}),
        "reused": reused,
        "training": plot(folder / "training.png", reward_chart(metrics)),
        "last steps": records(_rounded(metrics[-10:])),
        "policy": dg.MetadataValue.path(record["policy"]),
        "policy revision": record["policy_revision"],
        "started from": _started_from(record),
        "base revision": record["base_revision"],
        "backend": record["backend"],
        "changed settings": record["changed_settings"],
        "config version": record["config_version"],
        "code version": record["code_version"],
        "commit": _commit(record["code"]),
        "prompts version": record["prompts_version"],
        "prompt revision": record["prompt_revision"],
        "prompts": record["prompts"],
        "seconds": record["seconds"],
        "log": dg.MetadataValue.path(folder / "train.log"),
    }


def _summary(record: dict[str, Any], metrics: Sequence[Metrics], reused: bool) -> str:
    """Say how long the training was, from what, and what became of its reward."""
    if reused:
        return "Nothing has changed: the policy that was trained before is used again."
    changed = ", ".join(f"{name} {value}" for name, value in record["changed_settings"].items())
    ends = [line["reward"] for line in metrics if _is_number(line.get("reward"))]
    reward = f" The reward went from {ends[0]:.2f} to {ends[-1]:.2f}." if ends else ""
    return (
        f"{counted(len(metrics), 'step')} on {counted(record['prompts'], 'prompt')} in "
        f"{record['seconds']:,.0f} s"
        f"{f', with {changed}' if changed else ''}.{reward}"
    )


def _started_from(record: dict[str, Any]) -> str:
    start = record["start"]
    run = f" (training run {start['training_run']})" if start["training_run"] else ""
    return f"{start['from']}{run}, revision {record['start_revision']}"


def _commit(code: dict[str, Any]) -> str:
    return f"{code['commit']}{', with changes' if code['dirty'] else ''}"


def _rounded(metrics: Sequence[Metrics]) -> list[dict[str, Any]]:
    names = [name for name in SHOWN if any(name in line for line in metrics)]
    return [
        {name: round(line[name], 4) if _is_number(line.get(name)) else "" for name in names}
        for line in metrics
    ]


def reward_chart(metrics: Sequence[Metrics]) -> Chart:
    """Return reward and exact match over the steps of a training run; unknown values are gaps."""
    drawn = [
        Line(
            [row[name] if _is_number(row.get(name)) else math.nan for row in metrics],
            name.replace("_", " "),
            colour,
        )
        for name, colour in (("reward", FIRST), ("exact_match", SECOND))
    ]
    steps = [row["step"] for row in metrics]
    ticks = {float(step): f"{step:,}" for step in (steps[0], steps[-1])} if steps else {}
    y_ticks = {tenth / 10: f"{tenth / 10:.1f}" for tenth in range(0, 11, 2)}
    return lines(steps, drawn, ticks, y_ticks, dots=True, x_label="step")
