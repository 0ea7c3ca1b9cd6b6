"""GRPO: a policy trained on the prompts, by a child program that reports as it goes."""

import json
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
from assets.trainers import TrainerConfig, TrlConfig, chosen, lasting, make_program
from assets.versions import code_version, file_version, fingerprint, read_json
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.trainer import Metrics, TrainerResource
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.progress import kl_alarm

TRAINING_CODE = (
    "text2sql/training",
    *(f"text2sql/{name}.py" for name in ("agent", "environment", "judge", "prompts", "tools")),
)
SHOWN = (
    *("step", "reward", "exact_match", "loss", "entropy", "kl", "off_policy_lag"),
    *("tokens_per_second", "seconds"),
)


class GrpoConfig(dg.Config):
    """One training run."""

    trainer: TrainerConfig = Field(
        default_factory=TrlConfig,
        discriminator="backend",
        description="Which trainer runs, and with what: trl, prime_rl or prime_rl_lora.",
    )
    stall_seconds: float = Field(
        default=900.0,
        gt=0,
        le=86_400,
        description="Without progress for so long, it is ended. A large model takes long to load "
        "and to draw its first rollouts: give prime_rl 3600.",
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
    reused = record.get("config_version") == planned["config_version"] and not _fresh(config)
    if not reused:
        started = time.monotonic()
        program = make_program(config.trainer, policy, root, folder)
        reported = trainer.run(
            context,
            program.command,
            folder,
            config.stall_seconds,
            _observer(context),
            program.grace_seconds,
        )
        record = planned | {
            "reported": {name: str(value.value) for name, value in reported.items()},
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
    """Return what a training run depends on, and the version that this makes.

    What may change while a run goes on is part of ``config_version`` and not of ``version``,
    which names the run's folder.
    """
    settings = chosen(config.trainer)
    files = (prompts / "prompts.jsonl", prompts / "golds.jsonl")
    parts = {
        "base": policy.base,
        "base_revision": policy.revision(),
        "prompts_version": file_version(*files),
        "code_version": code_version(*TRAINING_CODE),
        "settings": lasting(config.trainer),
    }
    with files[0].open(encoding="utf-8") as lines:
        count = sum(1 for _ in lines)
    return parts | {
        "version": fingerprint(**parts),
        "backend": config.trainer.backend,
        "settings": settings,
        "config_version": fingerprint(**parts | {"settings": settings}),
        "prompts": count,
    }


def _fresh(config: GrpoConfig) -> bool:
    return not isinstance(config.trainer, TrlConfig) and config.trainer.fresh


def _observer(context: dg.AssetExecutionContext) -> Callable[[Metrics], None]:
    """Return what shows each step under the asset while it runs."""

    def observe(metrics: Metrics) -> None:
        shown = {
            name: value
            for name, value in metrics.items()
            if _is_number(value) or name == "estimated_end"
        }
        if alarm := kl_alarm(metrics):
            context.log.warning(f"Step {metrics.get('step')}: {alarm}.")
        context.log_event(
            dg.AssetObservation(
                asset_key=context.asset_key, partition=context.partition_key, metadata=shown
            )
        )

    return observe


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value == value


def read_metrics(folder: Path) -> list[Metrics]:
    """Return a run's metrics by step: what later lines say of a step replaces earlier lines."""
    path = folder / "metrics.jsonl"
    steps: dict[int, Metrics] = {}
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            for line in map(json.loads, filter(str.strip, lines)):
                steps.setdefault(line["step"], {}).update(line)
    return [steps[step] for step in sorted(steps)]


def _describe(folder: Path, record: dict[str, Any], reused: bool) -> dict[str, Any]:
    metrics = read_metrics(folder)
    return {
        **record.get("reported", {}),
        "reused": reused,
        "training": plot(folder / "training.png", draw_training(metrics)),
        "last steps": records(_rounded(metrics[-10:])),
        "policy": dg.MetadataValue.path(record["policy"]),
        "policy revision": record["policy_revision"],
        "base revision": record["base_revision"],
        "backend": record["backend"],
        "config version": record["config_version"],
        "code version": record["code_version"],
        "prompts version": record["prompts_version"],
        "prompts": record["prompts"],
        "seconds": record["seconds"],
        "log": dg.MetadataValue.path(folder / "train.log"),
    }


def _rounded(metrics: Sequence[Metrics]) -> list[dict[str, Any]]:
    names = [name for name in SHOWN if any(name in line for line in metrics)]
    return [
        {name: round(line[name], 4) if _is_number(line.get(name)) else "" for name in names}
        for line in metrics
    ]
