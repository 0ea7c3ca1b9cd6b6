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
from assets.common.sources import training_version, version_for
from assets.training.config import GrpoConfig, TrlConfig
from assets.training.difficulty import training_prompts
from assets.training.view import describe_training, observer
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.step_pods import training_pod
from resources.trainer import TrainerResource
from text2sql.agent.prompts import prompt_revision
from text2sql.common.artifacts import (
    training_plan_file,
    training_record_file,
    training_version_folder,
)
from text2sql.common.json_files import write_json
from text2sql.common.provenance import read_record, sealed
from text2sql.datasets.stored import load_golds, load_questions
from text2sql.training.backends import (
    Program,
    prime_rl_program,
    require_adapter_server,
    require_weights,
    trl_program,
    write_evaluation,
)
from text2sql.training.runs import StartPolicy, find_start, is_reusable, keep_prompts, plan_run


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

    It starts from the base policy, the champion, or another run's policy (``start_from``). The
    same prompts, start, settings and code are trained only once; a stopped run resumes from its
    last complete checkpoint.
    """
    require_passed(context, "training_prompts", "prompts_can_teach")
    run = context.partition_key
    require_run_name(run)
    start = find_start(root.path, config.start_from)
    start.require_other(run)
    planned = _plan(config, start, policy, root)
    _warn_of_other_filter(context, planned)
    folder = training_version_folder(root.path, run, planned["version"])
    record = read_record(folder / "record.json")
    fresh = not isinstance(config.trainer, TrlConfig) and config.trainer.fresh
    reused = not fresh and is_reusable(record, planned, policy.revision)
    if not reused:
        root.make(folder)
        write_json(training_plan_file(root.path, run), sealed(planned))
        keep_prompts(root.path, folder, planned)
        record = _train(context, config, root, policy, trainer, planned, folder)
        write_json(folder / "record.json", record)
    write_json(training_record_file(root.path, run), record)
    return dg.MaterializeResult(
        metadata=describe_training(folder, record, reused),
        data_version=dg.DataVersion(record["policy_revision"]),
    )


def _plan(
    config: GrpoConfig, start: StartPolicy, policy: PolicyResource, root: ArtifactRoot
) -> dict[str, Any]:
    base = policy.revision()
    versions = {
        "base": policy.base,
        "base_revision": base,
        "start_revision": policy.revision(start.policy) if start.policy else base,
        "code_version": training_version(config.trainer.backend),
        "prompt_revision": prompt_revision(policy.settings(start.policy)),
    }
    return plan_run(root.path, config.trainer.backend, config.trainer, start, versions)


def _train(
    context: dg.AssetExecutionContext,
    config: GrpoConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
    trainer: TrainerResource,
    planned: dict[str, Any],
    folder: Path,
) -> dict[str, Any]:
    """Train as planned; return the sealed record."""
    started = time.monotonic()
    program = make_program(config, root, policy, planned["start"]["policy"], folder)
    reported = trainer.run(context, program, folder, config.stall_limit(), observer(context))
    record = planned | {
        "training_run": context.partition_key,
        "reported": {name: str(value.value) for name, value in reported.items()},
        "policy": str(folder / "policy"),
        "policy_revision": policy.revision(folder / "policy"),
        "seconds": round(time.monotonic() - started, 1),
        "dagster_run": context.run_id,
    }
    return sealed(record)


def make_program(
    config: GrpoConfig, root: ArtifactRoot, policy: PolicyResource, start: str, folder: Path
) -> Program:
    """Write the trainer's configuration into ``folder``; return the program that reads it."""
    settings = config.trainer
    weights = require_weights(policy.directory(start), start)
    if isinstance(settings, TrlConfig):
        return trl_program(settings, weights, folder)
    require_adapter_server(settings, policy.server)
    evaluation = write_evaluation(
        folder, load_questions(root.path, "dev"), load_golds(root.path, "dev")
    )
    agent = policy.settings(start)
    return prime_rl_program(
        settings.backend, settings, weights, folder, agent, evaluation, settings.fresh
    )


def _warn_of_other_filter(context: dg.AssetExecutionContext, planned: dict[str, Any]) -> None:
    """Warn if the prompts were filtered with another policy than the one that is trained."""
    filtered = planned["prompts_about"].get("policy_revision")
    if filtered and filtered != planned["start_revision"]:
        context.log.warning(
            f"The prompts were filtered with the policy {filtered}, but the run starts from "
            f"{planned['start_revision']}: set the same start_from for base_rollouts and filter "
            "again."
        )
