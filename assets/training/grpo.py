"""GRPO: a policy trained on the prompts, by a child program that reports as it goes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.columns import MODEL_TEAM
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import require_run_name, training_runs
from assets.common.plots import plot, records
from assets.common.pools import GPU_POOL
from assets.common.sources import training_version, version_for
from assets.training.config import GrpoConfig, TrlConfig
from assets.training.difficulty import training_prompts
from resources.artifact_root import ArtifactRoot
from resources.policy import PolicyResource
from resources.step_pods import training_pod
from resources.trainer import TrainerResource
from text2sql.agent.prompts import prompt_revision
from text2sql.common import artifacts
from text2sql.common.json_files import write_json
from text2sql.common.provenance import read_record, sealed
from text2sql.errors import Text2SqlError
from text2sql.training import backends
from text2sql.training.metrics import Metrics, is_finite, read_metrics
from text2sql.training.prime_rl.metrics import alarm_of
from text2sql.training.runs import find_start, is_reusable, keep_prompts, plan_run
from text2sql.training.view import last_steps, reward_chart, training_summary


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
    base = policy.revision()
    versions = {
        "base": policy.base,
        "base_revision": base,
        "start_revision": policy.revision(start.policy) if start.policy else base,
        "code_version": training_version(config.trainer.backend),
        "prompt_revision": prompt_revision(policy.settings(start.policy)),
    }
    planned = plan_run(root.path, config.trainer.backend, config.trainer, start, versions)
    filtered = planned["prompts_about"].get("policy_revision")
    if filtered and filtered != planned["start_revision"]:
        context.log.warning(
            f"The prompts were filtered with the policy {filtered}, but the run starts from "
            f"{planned['start_revision']}: set the same start_from for base_rollouts and filter "
            "again."
        )
    folder = artifacts.training_folder(root.path, run, planned["version"])
    record = read_record(folder / "record.json")
    fresh = not isinstance(config.trainer, TrlConfig) and config.trainer.fresh
    reused = not fresh and is_reusable(record, planned, policy.revision)
    if not reused:
        root.make(folder)
        write_json(artifacts.training_plan_file(root.path, run), sealed(planned))
        keep_prompts(root.path, folder, planned)
        record = _train(context, config, root, policy, trainer, planned, folder)
        write_json(folder / "record.json", record)
    write_json(artifacts.training_record_file(root.path, run), record)
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
    """Train as planned; return the sealed record."""
    started, start, settings = time.monotonic(), planned["start"]["policy"], config.trainer
    weights = backends.require_weights(policy.directory(start), start)
    if isinstance(settings, TrlConfig):
        program = backends.trl_program(settings, weights, folder)
    else:
        backends.require_adapter_server(settings, policy.server)
        agent, fresh = policy.settings(start), settings.fresh
        program = backends.prime_rl_program(
            settings.backend, settings, weights, folder, agent, root.path, fresh
        )
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


def observer(context: dg.AssetExecutionContext) -> Callable[[Metrics], None]:
    """Return what shows each step under the asset while it runs."""

    def observe(metrics: Metrics) -> None:
        shown = {n: value for n, value in metrics.items() if is_finite(value)}
        if "estimated_end" in metrics:
            shown["estimated_end"] = metrics["estimated_end"]
        if alarm := alarm_of(metrics):
            context.log.warning(f"Step {metrics.get('step')}: {alarm}.")
        key, partition = context.asset_key, context.partition_key
        context.log_event(dg.AssetObservation(key, partition=partition, metadata=shown))

    return observe


def describe_training(folder: Path, record: dict[str, Any], reused: bool) -> dict[str, Any]:
    """Return the metadata of a trained policy: how it went, and everything that it depends on."""
    metrics = read_metrics(folder / "metrics.jsonl")
    start, code = record["start"], record["code"]
    run = f" (training run {start['training_run']})" if start["training_run"] else ""
    return {
        "what happened": "Nothing has changed: the policy that was trained before is used again."
        if reused
        else training_summary(record, metrics),
        **record.get("reported", {}),
        "reused": reused,
        "training": plot(folder / "training.png", reward_chart(metrics)),
        "last steps": records(last_steps(metrics)),
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


def require_passed(context: dg.AssetExecutionContext, asset: str, check: str) -> None:
    """Raise Text2SqlError if an asset's check failed last.

    A blocking check stops the rest of its own run; a later run that starts downstream is
    stopped here. A check that never ran stops nothing: the asset came from its own run then.
    """
    key = dg.AssetCheckKey(dg.AssetKey(asset), check)
    storage = context.instance.event_log_storage
    record = storage.get_latest_asset_check_execution_by_key([key]).get(key)
    evaluation = record.evaluation if record else None
    if evaluation is not None and not evaluation.passed:
        raise Text2SqlError(
            f"The check {check} of {asset} failed: {evaluation.description or 'see its metadata'} "
            f"Fix it and materialize {asset} again."
        )
