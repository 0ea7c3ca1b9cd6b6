"""The champion on a split that decides nothing: each use is logged before it begins."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.failures import fails_in_a_sentence
from assets.common.sources import version_for
from assets.evaluation.config import HeldOutConfig, ScoresConfig
from assets.evaluation.dev_rollouts import required_sets
from assets.evaluation.dev_scores import evaluate_split, scoring_version
from assets.rollouts.sampling import describe_rollouts, plan_shards, sample_shard
from resources.artifact_root import ArtifactRoot
from resources.forms import config_of_step
from resources.policy import PolicyResource
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import held_out_folder
from text2sql.common.json_files import read_if_there, write_json
from text2sql.datasets.stored import load_current
from text2sql.errors import Text2SqlError
from text2sql.evaluation.evaluate import Evaluation
from text2sql.evaluation.held_out import Use, metric, note_use, uses_of
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.evaluation.stored import ROLLOUTS
from text2sql.rollouts.store import Rollout
from text2sql.training.difficulty import tallied

CURRENT = "current.json"


@dg.op(
    ins={"gold_results": dg.In(dg.Nothing), "champion_policy": dg.In(dg.Nothing)},
    out={"shards": dg.DynamicOut(dict), "plan": dg.Out(dict)},
)
@fails_in_a_sentence
def plan_held_out(
    context: dg.OpExecutionContext,
    config: HeldOutConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
) -> Iterator[dg.Output[dict[str, Any]] | dg.DynamicOutput[dict[str, Any]]]:
    """Log the use of the split, then plan the missing rollouts."""
    champion, current = champion_record(root.path), load_current(root.path)
    if not champion:
        raise Text2SqlError("No champion yet: a held-out split gives the champion's final figure.")
    if config.split not in current.splits:
        known = ", ".join(current.splits)
        raise Text2SqlError(
            f"The dataset has no split '{config.split}', only {known}: add it to bird_archive's "
            "splits, with its source."
        )
    sets = required_sets(root, policy, config.split, champion["policy"], config)
    run = context.run.root_run_id or context.run_id
    revision, trained = champion["revision"], champion["training_run"]
    uses = note_use(root.path, Use(config.split, current.fingerprint, revision, trained, run))
    context.log.info(f"Logged: {metric(uses, revision)}.")
    folder = f"{config.split}-{revision}-{current.fingerprint}"
    plan = {"folder": folder, "split": config.split, "training_run": trained, "revision": revision}
    rows = {name: one.to_dict() for name, one in sets.items()}
    yield dg.Output(plan | {"sets": rows}, output_name="plan")
    yield from plan_shards(root.path, list(sets.values()), config, policy)


@dg.op
@fails_in_a_sentence
def collect_held_out(
    context: dg.OpExecutionContext, plan: dict, shards: list, root: ArtifactRoot
) -> dg.Output[None]:
    """Describe what was sampled, and name it for held_out_scores."""
    found = tallied(root.path, plan["sets"])
    write_json(held_out_folder(root.path, plan["folder"]) / ROLLOUTS, plan["sets"])
    current = {name: value for name, value in plan.items() if name != "sets"}
    write_json(held_out_folder(root.path) / CURRENT, current)
    return describe_rollouts(root.path, found, shards)


@dg.graph_asset(
    group_name="evaluation",
    description="Rollouts of the champion and the base on a split that decides nothing.",
    config=config_of_step("plan_held_out", HeldOutConfig),
    ins={
        "gold_results": dg.AssetIn(dagster_type=dg.Nothing),
        "champion_policy": dg.AssetIn(dagster_type=dg.Nothing),
    },
    owners=MODEL_TEAM,
    code_version=version_for("held_out_rollouts"),
    kinds={"jsonl"},
    metadata=columns_of(Rollout),
)
def held_out_rollouts(gold_results: Any, champion_policy: Any) -> Any:
    """Log the use of the split, and sample the champion and the base on it, in shards."""
    shards, plan = plan_held_out(gold_results=gold_results, champion_policy=champion_policy)
    return collect_held_out(plan, shards.map(sample_shard).collect())


@dg.asset(
    group_name="evaluation",
    deps=[held_out_rollouts],
    owners=MODEL_TEAM,
    code_version=version_for("held_out_scores"),
    kinds={"json"},
)
@fails_in_a_sentence
def held_out_scores(
    context: dg.AssetExecutionContext,
    config: ScoresConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """The champion's final figure, with everything that the dev evaluation shows.

    Report and metadata say if the split was used before, for this policy or for another one.
    """
    plan = read_if_there(held_out_folder(root.path) / CURRENT)
    if not plan:
        raise Text2SqlError("No rollouts on a held-out split: materialize held_out_rollouts first.")
    split, folder = plan["split"], held_out_folder(root.path, plan["folder"])
    uses = uses_of(root.path, split, load_current(root.path).fingerprint)
    worth = metric(uses, plan["revision"]) if uses else "figure of a split whose log is gone"
    version = scoring_version()
    what = Evaluation(plan["training_run"], split, folder, worth, context.run_id, version)
    return evaluate_split(what, config, root, sandbox, {"uses of the split": len(uses)})
