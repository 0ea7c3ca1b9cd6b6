"""Rollouts of the base and the trained policy on the dev questions."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.partitions import training_runs
from assets.common.sources import version_for
from assets.common.told import told
from assets.data.stored import load_current, load_questions
from assets.evaluation.config import DevRolloutsConfig, EvaluationConfig
from assets.evaluation.rivals import champion_set
from assets.rollouts.sampling import describe_rollouts, plan_shards, sample_shard, tallied
from assets.rollouts.sets import POINTER, RolloutSet, rollout_set
from resources.forms import config_of_step
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from text2sql.common.json_files import write_json
from text2sql.evaluation.compare import EVALUATIONS
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout
from text2sql.training.runs import read_training


@dg.op(
    ins={"gold_results": dg.In(dg.Nothing), "grpo_policy": dg.In(dg.Nothing)},
    out={"shards": dg.DynamicOut(dict), "sets": dg.Out(dict)},
)
@told
def plan_dev_rollouts(
    context: dg.OpExecutionContext,
    config: DevRolloutsConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
) -> Iterator[dg.Output[dict[str, Any]] | dg.DynamicOutput[dict[str, Any]]]:
    """Find out which rollouts of the two policies are missing; the base's are sampled once."""
    trained = read_training(root.path, context.partition_key)["policy"]
    sets = wanted_sets(root, policy, "dev", trained, config)
    if config.ask_champion:
        sets |= champion_set(root, policy, sets, context.log.warning)
    rows = {name: wanted.to_dict() for name, wanted in sets.items()}
    yield dg.Output(rows, output_name="sets")
    yield from plan_shards(root.path, list(sets.values()), config, policy)


def wanted_sets(
    root: ArtifactRoot, policy: PolicyResource, split: str, trained: str, config: EvaluationConfig
) -> dict[str, RolloutSet]:
    """Return the sets of rollouts that an evaluation of a policy and its base needs."""
    questions = load_questions(root.path, split)
    some = choose(questions, config.sampled_per_subset)
    dataset = load_current(root.path).fingerprint
    sets = {}
    for name, spec in ((BASE, None), (TRAINED, trained)):
        about = (policy, spec, dataset, split)
        once = (*about, questions, config.greedy(), 1)
        sets[f"{name} greedy"] = rollout_set(*once)
        sets[f"{name} sampled"] = rollout_set(*about, some, config.sampled(), config.samples)
        if config.single_turn:
            sets[f"{name} {SINGLE_TURN}"] = rollout_set(*once, "single_turn")
    return sets


def choose(questions: Sequence[Question], each: int) -> list[Question]:
    """Return the first ``each`` questions of every subset, in order; all where it is 0."""
    seen: dict[str, int] = {}
    chosen = []
    for question in questions:
        seen[question.subset] = seen.get(question.subset, 0) + 1
        if not each or seen[question.subset] <= each:
            chosen.append(question)
    return chosen


@dg.op
@told
def collect_dev_rollouts(
    context: dg.OpExecutionContext, sets: dict, shards: list, root: ArtifactRoot
) -> dg.Output[None]:
    """Say what was sampled, and point at it."""
    found = tallied(root.path, sets)
    write_json(evaluation_folder(root, context.partition_key) / POINTER, sets)
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


def evaluation_folder(root: ArtifactRoot, run: str) -> Path:
    """Return the folder of a training run's evaluation."""
    return root.folder(EVALUATIONS, run)
