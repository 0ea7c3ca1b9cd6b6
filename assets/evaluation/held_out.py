"""The champion on a split that decides nothing: evaluated once, noted before it begins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.sources import version_for
from assets.common.told import told
from assets.data.stored import load_current
from assets.evaluation.config import EvaluationConfig
from assets.evaluation.dev_rollouts import wanted_sets
from assets.evaluation.evaluate import Evaluation, ScoresConfig, evaluate, scores_version
from assets.evaluation.view import describe_scores
from assets.rollouts.sampling import describe_rollouts, plan_shards, sample_shard, tallied
from assets.rollouts.sets import POINTER
from resources.forms import config_of_step
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.sandbox import SandboxResource
from text2sql.common.json_files import read_if_there, write_json
from text2sql.errors import Text2SqlError
from text2sql.evaluation.compare import HELD_OUT
from text2sql.evaluation.held_out import Use, metric, note_use, uses_of
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.rollouts.store import Rollout

CURRENT = "current.json"


class HeldOutConfig(EvaluationConfig):
    """How champion and base are sampled on the held-out split."""

    split: str = Field(
        default="test",
        description="A split of the dataset that neither trains nor chooses a policy "
        "(bird_archive ingests it where its splits name it).",
    )


@dg.op(
    ins={"gold_results": dg.In(dg.Nothing), "champion_policy": dg.In(dg.Nothing)},
    out={"shards": dg.DynamicOut(dict), "plan": dg.Out(dict)},
)
@told
def plan_held_out(
    context: dg.OpExecutionContext,
    config: HeldOutConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
) -> Iterator[dg.Output[dict[str, Any]] | dg.DynamicOutput[dict[str, Any]]]:
    """Note the use in the log, then find out which rollouts are missing."""
    champion, current = champion_record(root.path), load_current(root.path)
    if not champion:
        raise Text2SqlError("There is no champion yet: a held-out split gives its final figure.")
    if config.split not in current.splits:
        known = ", ".join(current.splits)
        raise Text2SqlError(
            f"The dataset has no split '{config.split}', only {known}: name it in bird_archive's "
            "splits and say where it lies."
        )
    sets = wanted_sets(root, policy, config.split, champion["policy"], config)
    run = context.run.root_run_id or context.run_id
    revision, trained = champion["revision"], champion["training_run"]
    uses = note_use(root.path, Use(config.split, current.fingerprint, revision, trained, run))
    context.log.info(f"Noted in the log: {metric(uses, revision)}.")
    folder = f"{config.split}-{revision}-{current.fingerprint}"
    plan = {"folder": folder, "split": config.split, "training_run": trained, "revision": revision}
    rows = {name: wanted.to_dict() for name, wanted in sets.items()}
    yield dg.Output(plan | {"sets": rows}, output_name="plan")
    yield from plan_shards(root.path, list(sets.values()), config, policy)


@dg.op
@told
def collect_held_out(
    context: dg.OpExecutionContext, plan: dict, shards: list, root: ArtifactRoot
) -> dg.Output[None]:
    """Say what was sampled, and point at it."""
    found = tallied(root.path, plan["sets"])
    write_json(root.folder(HELD_OUT, plan["folder"]) / POINTER, plan["sets"])
    write_json(root.folder(HELD_OUT) / CURRENT, {k: v for k, v in plan.items() if k != "sets"})
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
    """Note the use of the split, and sample the champion and the base on it, in shards."""
    shards, plan = plan_held_out(gold_results=gold_results, champion_policy=champion_policy)
    return collect_held_out(plan, shards.map(sample_shard).collect())


@dg.asset(
    group_name="evaluation",
    deps=[held_out_rollouts],
    owners=MODEL_TEAM,
    code_version=version_for("held_out_scores"),
    kinds={"json"},
)
@told
def held_out_scores(
    context: dg.AssetExecutionContext,
    config: ScoresConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """The champion's final figure, with everything that the dev evaluation shows.

    The log of uses says what it is worth: a second look at the split, or a look for another
    policy, stands in the report and in the metadata.
    """
    plan = read_if_there(root.folder(HELD_OUT) / CURRENT)
    if not plan:
        raise Text2SqlError("Nothing was sampled on a held-out split: see held_out_rollouts.")
    uses = uses_of(root.path, plan["split"], load_current(root.path).fingerprint)
    worth = metric(uses, plan["revision"]) if uses else "figure of a split whose log is gone"
    folder = Path(root.folder(HELD_OUT, plan["folder"]))
    what = Evaluation(plan["training_run"], plan["split"], folder, worth)
    scores = evaluate(context, what, config, root, sandbox)
    return dg.MaterializeResult(
        metadata=describe_scores(folder, scores) | {"uses of the split": len(uses)},
        data_version=dg.DataVersion(scores_version(scores)),
    )
