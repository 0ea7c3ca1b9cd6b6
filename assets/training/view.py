"""What Dagster shows of the difficulty filter and of a training run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.plots import plot, records
from text2sql.common.charts import FIRST, SECOND, Bars, Chart, Line, bars, lines
from text2sql.questions import Question
from text2sql.training.difficulty import Difficulty, count_kinds, filter_summary, kept_by
from text2sql.training.metrics import Metrics, read_metrics
from text2sql.training.prime_rl.metrics import alarm_of
from text2sql.training.runs import training_summary

SHOWN_METRICS = (
    *("step", "reward", "exact_match", "loss", "entropy", "kl", "off_policy_lag"),
    *("tokens_per_second", "seconds"),
)
SHOWN_GROUPS = 40
"""A picture shows at most this many databases: those with the most questions."""


def describe_prompts(
    folder: Path,
    questions: Sequence[Question],
    ratings: Sequence[Difficulty],
    about: Mapping[str, Any],
    unusable: int,
) -> dict[str, Any]:
    """Return the metadata of the prompts; the pictures are also written into ``folder``.

    ``questions`` are all of the split, ``unusable`` how many of them have no usable gold.
    """
    samples = about["samples"]
    most = min(about["most_solved"] or samples, samples - 1)
    solved = Counter(rating.solved for rating in ratings if rating.valid)
    counts = [solved[number] for number in range(samples + 1)]
    histogram = _histogram(counts, range(about["least_solved"], most + 1))
    by_database = kept_by(questions, ratings, lambda question: question.db_id)
    by_difficulty = kept_by(questions, ratings, lambda question: question.difficulty or "none")
    kinds = count_kinds(ratings, len(questions), unusable)
    return {
        "what happened": filter_summary(ratings, about, most),
        "prompts": about["kept"],
        "kinds": records([{"kind": kind, "questions": count} for kind, count in kinds.items()]),
        "solved": plot(folder / "solved.png", histogram),
        "kept by database": _groups(folder / "kept_by_database.png", by_database),
        "kept by difficulty": _groups(folder / "kept_by_difficulty.png", by_difficulty),
        "fingerprint": about["fingerprint"],
        "policy revision": about["policy_revision"],
        "path": dg.MetadataValue.path(folder),
    }


def _histogram(counts: Sequence[int], kept: range) -> Chart:
    """Return how many questions were solved how often; those that are kept are coloured."""
    names = [str(solved) for solved in range(len(counts))]
    muted = [solved for solved in range(len(counts)) if solved not in kept]
    group = Bars(counts, [f"{count:,}" for count in counts], muted=muted)
    return bars(names, [group], "questions by rollouts that match the gold result")


def _groups(path: Path, groups: Mapping[str, tuple[int, int]]) -> dg.MetadataValue:
    shown = dict(list(groups.items())[:SHOWN_GROUPS])
    more = len(groups) - len(shown)
    texts = [f"{kept:,} of {rated:,}" for kept, rated in shown.values()]
    label = "share kept" + (f" ({more} more are not shown)" if more else "")
    group = Bars([kept / rated for kept, rated in shown.values()], texts)
    return plot(path, bars(list(shown), [group], label, full=1))


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


def describe_training(folder: Path, record: dict[str, Any], reused: bool) -> dict[str, Any]:
    """Return the metadata of a trained policy: how it went, and everything that it depends on."""
    metrics = read_metrics(folder / "metrics.jsonl")
    names = [name for name in SHOWN_METRICS if any(name in line for line in metrics)]
    last = [
        {name: round(line[name], 4) if _is_number(line.get(name)) else "" for name in names}
        for line in metrics[-10:]
    ]
    start, code = record["start"], record["code"]
    run = f" (training run {start['training_run']})" if start["training_run"] else ""
    return {
        "what happened": "Nothing has changed: the policy that was trained before is used again."
        if reused
        else training_summary(record, metrics),
        **record.get("reported", {}),
        "reused": reused,
        "training": plot(folder / "training.png", reward_chart(metrics)),
        "last steps": records(last),
        "policy": dg.MetadataValue.path(record["policy"]),
        "policy revision": record["policy_revision"],
        "started from": f"{start['from']}{run}, revision {record['start_revision']}",
        "base revision": record["base_revision"],
        "backend": record["backend"],
        "changed settings": record["changed_settings"],
        "config version": record["config_version"],
        "code version": record["code_version"],
        "commit": f"{code['commit']}{', with changes' if code['dirty'] else ''}",
        "prompts version": record["prompts_version"],
        "prompt revision": record["prompt_revision"],
        "prompts": record["prompts"],
        "seconds": record["seconds"],
        "log": dg.MetadataValue.path(folder / "train.log"),
    }


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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
