"""GRPO: a policy trained on the prompts, by a child program that reports as it goes."""

import time
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.columns import MODEL_TEAM
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import require_run_name, training_runs
from assets.common.passed import require_passed
from assets.common.pools import GPU_POOL
from assets.common.sources import version_for
from assets.training.config import GrpoConfig
from assets.training.difficulty import training_prompts
from assets.training.plan import PLAN, is_reusable, keep_prompts, plan_training
from assets.training.trainers import make_program
from assets.training.view import describe_training, observer
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.step_pods import training_pod
from resources.trainer import TrainerResource
from text2sql.common.json_files import write_json
from text2sql.common.provenance import read_record, sealed
from text2sql.training.start import RECORD, TRAINING, find_start


def training_folder(root: ArtifactRoot, run: str) -> Path:
    """Return the folder of a training run; each version of it has a folder of its own below."""
    return root.folder(TRAINING, run)


@dg.asset(
    group_name="training",
    partitions_def=training_runs,
    deps=[training_prompts],
    owners=MODEL_TEAM,
    code_version=version_for("grpo_policy"),
    pool=GPU_POOL,
    op_tags=training_pod(),
    kinds={"pytorch"},
)
@fails_in_a_sentence
def grpo_policy(
    context: dg.AssetExecutionContext,
    config: GrpoConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
    trainer: TrainerResource,
) -> dg.MaterializeResult:
    """A policy after GRPO on the training prompts, as a Hugging Face directory.

    It starts from the base policy, the champion, or another run's policy (``start_from``).
    The same prompts, start, config and code give the same version, which is trained once; a run
    that was stopped goes on from its last complete checkpoint.
    """
    require_passed(context, "training_prompts", "prompts_can_teach")
    run = context.partition_key
    require_run_name(run)
    start = find_start(root.path, config.start_from)
    start.require_other(run)
    planned = plan_training(config.trainer, start, policy, root)
    _warn_of_other_filter(context, planned)
    folder = training_folder(root, run) / planned["version"]
    record = read_record(folder / "record.json")
    reused = is_reusable(record, planned, config.trainer, policy)
    if not reused:
        write_json(training_folder(root, run) / PLAN, sealed(planned))
        keep_prompts(root, folder, planned)
        record = _train(context, config, root, policy, trainer, planned, folder)
        write_json(folder / "record.json", record)
    write_json(training_folder(root, run) / RECORD, record)
    return dg.MaterializeResult(
        metadata=describe_training(folder, record, reused),
        data_version=dg.DataVersion(record["policy_revision"]),
    )


def _train(
    context: dg.AssetExecutionContext,
    config: GrpoConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
    trainer: TrainerResource,
    planned: dict[str, Any],
    folder: Path,
) -> dict[str, Any]:
    """Train as planned; return the sealed record of it."""
    started = time.monotonic()
    start = planned["start"]["policy"]
    program = make_program(config.trainer, policy, root, folder, start)
    reported = trainer.run(context, program, folder, config.patience(), observer(context))
    record = planned | {
        "training_run": context.partition_key,
        "reported": {name: str(value.value) for name, value in reported.items()},
        "policy": str(folder / "policy"),
        "policy_revision": policy.revision(folder / "policy"),
        "seconds": round(time.monotonic() - started, 1),
        "dagster_run": context.run_id,
    }
    return sealed(record)


def _warn_of_other_filter(context: dg.AssetExecutionContext, planned: dict[str, Any]) -> None:
    """Warn where the prompts were filtered with another policy than the one that is trained."""
    filtered = planned["prompts_about"].get("policy_revision")
    if filtered and filtered != planned["start_revision"]:
        context.log.warning(
            f"The prompts were filtered with the policy {filtered}, the run starts from "
            f"{planned['start_revision']}: give base_rollouts the same start_from to filter anew."
        )
