"""GRPO: a policy trained on the prompts, by a child program that reports as it goes."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.checks import require_passed
from assets.data import write_json
from assets.difficulty import prompts_folder, training_prompts
from assets.partitions import training_runs
from assets.plots import draw_training, plot, records
from assets.versions import code_version, file_version, fingerprint, read_json
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.trainer import Metrics, TrainerResource
from text2sql.errors import Text2SqlError

TRAINING_CODE = (
    "text2sql/training",
    *(f"text2sql/{name}.py" for name in ("agent", "judge", "prompts", "tools")),
)
SHOWN = ("step", "reward", "exact_match", "loss", "entropy", "seconds")


class TrlConfig(dg.Config):
    """GRPO with TRL in one process: a small policy on a CPU or on one GPU."""

    steps: int = Field(default=60, ge=1, le=100_000, description="Optimizer steps.")
    groups_per_step: int = Field(default=16, ge=1, le=4096, description="Prompts a step.")
    group_size: int = Field(default=8, ge=2, le=128, description="Rollouts a prompt.")
    learning_rate: float = Field(default=1.5e-4, gt=0, le=1e-2, description="After the warm-up.")
    seed: int = Field(default=1, ge=0, description="Of the order of prompts and of the sampling.")
    threads: int = Field(default=2, ge=1, le=256, description="CPU threads.")
    save_every: int = Field(default=10, ge=1, description="Steps between two checkpoints.")
    shuffle_rewards: bool = Field(
        default=False, description="A control: rewards are dealt at random, so nothing is learnt."
    )


class TrainerConfig(dg.Config):
    """Which trainer runs, and with what."""

    trl: TrlConfig = Field(default_factory=TrlConfig)


class GrpoConfig(dg.Config):
    """One training run."""

    trainer: TrainerConfig = Field(default_factory=TrainerConfig)
    stall_seconds: float = Field(
        default=900.0, gt=0, le=86_400, description="Without progress for so long, it is ended."
    )


def training_folder(root: ArtifactRoot, run: str) -> Path:
    """Return the folder of a training run; each version of it has a folder of its own below."""
    return root.folder("training", run)


def read_training(root: ArtifactRoot, run: str) -> dict[str, Any]:
    """Return what ``grpo_policy`` recorded of a run: policy path, revisions, config, seconds."""
    record = read_json(training_folder(root, run) / "training.json")
    if not record:
        raise Text2SqlError(f"The training run {run} has no policy: materialize grpo_policy first.")
    return record


@dg.asset(
    group_name="training",
    partitions_def=training_runs,
    deps=[training_prompts],
    code_version=code_version(*TRAINING_CODE),
    pool="gpu",
    kinds={"pytorch"},
)
def grpo_policy(
    context: dg.AssetExecutionContext,
    config: GrpoConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
    trainer: TrainerResource,
) -> dg.MaterializeResult:
    """The base policy after GRPO on the training prompts, as a Hugging Face directory.

    The same prompts, base, config and code give the same version, which is trained once; a run
    that was stopped goes on from its last complete checkpoint.
    """
    require_passed(context, "training_prompts", "prompts_can_teach")
    run, prompts = context.partition_key, prompts_folder(root)
    planned = _plan(config, policy, prompts)
    folder = training_folder(root, run) / planned["version"]
    record = read_json(folder / "record.json")
    reused = bool(record)
    if not reused:
        started = time.monotonic()
        program = _write_program(folder, policy, prompts, planned["settings"])
        trainer.run(context, program, folder, config.stall_seconds, _observer(context))
        record = planned | {
            "policy": str(folder / "policy"),
            "policy_revision": policy.revision(folder / "policy"),
            "seconds": round(time.monotonic() - started, 1),
            "dagster_run": context.run_id,
        }
        write_json(folder / "record.json", record)
    write_json(training_folder(root, run) / "training.json", record)
    return dg.MaterializeResult(
        metadata=_describe(folder, record, reused),
        data_version=dg.DataVersion(record["policy_revision"]),
    )


def _plan(config: GrpoConfig, policy: PolicyResource, prompts: Path) -> dict[str, Any]:
    """Return what a training run depends on, and the version that this makes."""
    settings = config.trainer.trl.model_dump()
    files = (prompts / "prompts.jsonl", prompts / "golds.jsonl")
    parts = {
        "base": policy.base,
        "base_revision": policy.revision(),
        "prompts_version": file_version(*files),
        "code_version": code_version(*TRAINING_CODE),
        "settings": settings,
    }
    with files[0].open(encoding="utf-8") as lines:
        count = sum(1 for _ in lines)
    return parts | {"version": fingerprint(**parts), "prompts": count}


def _write_program(
    folder: Path, policy: PolicyResource, prompts: Path, settings: dict[str, Any]
) -> list[str]:
    """Write the child's configuration; return its command line."""
    base = policy.directory()
    if base is None:
        raise Text2SqlError(
            f"The base policy {policy.base} is a server: training needs its model's directory."
        )
    paths = {
        "policy_dir": str(base),
        "prompts": str(prompts / "prompts.jsonl"),
        "golds": str(prompts / "golds.jsonl"),
        "output_dir": str(folder),
    }
    config = write_json(folder / "config.json", paths | settings | {"resume": True})
    return [sys.executable, "-m", "text2sql.training.trl", str(config)]


def _observer(context: dg.AssetExecutionContext) -> Callable[[Metrics], None]:
    """Return what shows each step under the asset while it runs."""

    def observe(metrics: Metrics) -> None:
        numbers = {name: value for name, value in metrics.items() if _is_number(value)}
        context.log_event(
            dg.AssetObservation(
                asset_key=context.asset_key, partition=context.partition_key, metadata=numbers
            )
        )

    return observe


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value == value


def read_metrics(folder: Path) -> list[Metrics]:
    """Return a run's metrics, a line a step: of a step that was repeated, the last."""
    path = folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
    steps = {line["step"]: line for line in map(json.loads, filter(None, lines))}
    return [steps[step] for step in sorted(steps)]


def _describe(folder: Path, record: dict[str, Any], reused: bool) -> dict[str, Any]:
    metrics = read_metrics(folder)
    return {
        "reused": reused,
        "training": plot(folder / "training.png", draw_training(metrics)),
        "last steps": records(_rounded(metrics[-10:])),
        "policy": dg.MetadataValue.path(record["policy"]),
        "policy revision": record["policy_revision"],
        "base revision": record["base_revision"],
        "prompts": record["prompts"],
        "seconds": record["seconds"],
        "log": dg.MetadataValue.path(folder / "train.log"),
    }


def _rounded(metrics: Sequence[Metrics]) -> list[dict[str, Any]]:
    return [
        {name: round(line[name], 4) if _is_number(line.get(name)) else "" for name in SHOWN}
        for line in metrics
    ]
