"""Rollouts of the base and the trained policy on the dev questions."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import training_runs
from assets.common.sources import version_for
from assets.evaluation.config import DevRolloutsConfig, EvaluationConfig
from assets.rollouts.sampling import describe_rollouts, plan_shards, sample_shard
from assets.rollouts.sets import rollout_set
from resources.artifact_root import ArtifactRoot
from resources.forms import config_of_step
from resources.policy import PolicyResource
from text2sql.common.artifacts import evaluation_folder
from text2sql.common.json_files import write_json
from text2sql.datasets.stored import load_current, load_questions
from text2sql.evaluation.evaluate import champion_set, first_of_subsets
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED
from text2sql.evaluation.stored import ROLLOUTS
from text2sql.policy.base import Sampling
from text2sql.rollouts.sets import RolloutSet
from text2sql.rollouts.store import Rollout
from text2sql.training.difficulty import tallied
from text2sql.training.runs import read_training


@dg.op(
    ins={"gold_results": dg.In(dg.Nothing), "grpo_policy": dg.In(dg.Nothing)},
    out={"shards": dg.DynamicOut(dict), "sets": dg.Out(dict)},
)
@fails_in_a_sentence
def plan_dev_rollouts(
    context: dg.OpExecutionContext,
    config: DevRolloutsConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
) -> Iterator[dg.Output[dict[str, Any]] | dg.DynamicOutput[dict[str, Any]]]:
    """Plan the missing rollouts of the two policies; the base's are shared by all runs."""
    from text2sql.agent.prompts import prompt_revision

    trained = read_training(root.path, context.partition_key)["policy"]
    sets = required_sets(root, policy, "dev", trained, config)
    if config.ask_champion:

        def ask(spec: str) -> tuple[str, str]:
            return policy.revision(spec), prompt_revision(policy.settings(spec))

        sets |= champion_set(root.path, sets, ask, context.log.warning)
    rows = {name: one.to_dict() for name, one in sets.items()}
    yield dg.Output(rows, output_name="sets")
    yield from plan_shards(root.path, list(sets.values()), config, policy)


def required_sets(
    root: ArtifactRoot, policy: PolicyResource, split: str, trained: str, config: EvaluationConfig
) -> dict[str, RolloutSet]:
    """Return the sets of rollouts that an evaluation of a policy and its base needs."""
    questions = load_questions(root.path, split)
    some = first_of_subsets(questions, config.sampled_per_subset)
    dataset = load_current(root.path).fingerprint
    sets = {}
    for name, spec in ((BASE, None), (TRAINED, trained)):
        about = (policy, spec, dataset, split)
        once = (*about, questions, Sampling(), 1)
        sets[f"{name} greedy"] = rollout_set(*once)
        sets[f"{name} sampled"] = rollout_set(*about, some, config.sampled(), config.samples)
        if config.single_turn:
            sets[f"{name} {SINGLE_TURN}"] = rollout_set(*once, "single_turn")
    return sets


@dg.op
@fails_in_a_sentence
def collect_dev_rollouts(
    context: dg.OpExecutionContext, sets: dict, shards: list, root: ArtifactRoot
) -> dg.Output[None]:
    """Describe what was sampled, and name it for dev_scores."""
    found = tallied(root.path, sets)
    write_json(evaluation_folder(root.path, context.partition_key) / ROLLOUTS, sets)
    return describe_rollouts(root.path, found, shards)


@dg.graph_asset(
    group_name="evaluation",
    description="Rollouts of the base and the trained policy on the dev questions.",
    partitions_def=training_runs,
    config=config_of_step("plan_dev_rollouts", DevRolloutsConfig),
    ins={
        "gold_results": dg.AssetIn(dagster_type=dg.Nothing),
        "grpo_policy": dg.AssetIn(dagster_type=dg.Nothing),
    },
    owners=MODEL_TEAM,
    code_version=version_for("dev_rollouts"),
    kinds={"jsonl"},
    metadata=columns_of(Rollout),
)
def dev_rollouts(gold_results: Any, grpo_policy: Any) -> Any:
    """Sample the base and the trained policy on the dev questions, in shards."""
    shards, sets = plan_dev_rollouts(gold_results=gold_results, grpo_policy=grpo_policy)
    return collect_dev_rollouts(sets, shards.map(sample_shard).collect())
