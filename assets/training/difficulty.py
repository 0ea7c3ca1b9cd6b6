"""The difficulty filter: a policy learns from questions that it solves sometimes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import merge
from assets.checks.page import report_checks
from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import assets_of, require_training_run, training_run_of
from assets.common.sources import version_for
from assets.data.own_dataset import own_current
from assets.data.strength import reward_strength
from assets.rollouts.sampling import (
    describe_rollouts,
    plan_shards,
    require_valid,
    sample_shard,
)
from assets.rollouts.sets import estimate_cost, rollout_set, tally_rollouts
from assets.training.config import BaseRolloutsConfig, GrpoConfig, TrainingPromptsConfig
from assets.training.prompt_checks import check_prompts, check_ratings
from assets.training.run_check import read_forms, require_questions, require_trainable
from assets.training.view import describe_prompts
from resources.forms import Form, config_of_step
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from text2sql.common.artifacts import base_rollouts_file, dataset_folder, prompts_folder
from text2sql.common.json_files import read_rows, write_json
from text2sql.common.provenance import code_state
from text2sql.datasets.stored import load_golds, load_questions
from text2sql.datasets.strength import require_strength
from text2sql.questions import Question
from text2sql.rollouts.sets import RolloutSet
from text2sql.rollouts.store import Rollout
from text2sql.training.difficulty import mark_weak, rate, select, usable
from text2sql.training.prompts import (
    GOLDS,
    PROMPTS,
    RATINGS,
    describe_selection,
    read_about,
    sampled_set,
    write_prompts,
)
from text2sql.training.runs import find_start


@dg.op(
    ins={"gold_results": dg.In(dg.Nothing)},
    out={"shards": dg.DynamicOut(dict), "plan": dg.Out(dict)},
)
@fails_in_a_sentence
def plan_base_rollouts(
    context: dg.OpExecutionContext,
    config: BaseRolloutsConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
) -> Iterator[dg.Output[dict[str, Any]] | dg.DynamicOutput[dict[str, Any]]]:
    """Find out which rollouts are missing, estimate their cost, and divide them into shards."""
    require_training_run(context)
    forms = _check_run(context, root)
    golds = load_golds(root.path, "train")
    questions = [q for q in load_questions(root.path, "train") if usable(q, golds)]
    questions = questions[: config.max_questions or None]
    require_questions(forms, len(questions))
    dataset, start = own_current(context, root.path), find_start(root.path, config.start_from)
    rollouts = rollout_set(
        policy,
        start.policy,
        dataset.fingerprint,
        "train",
        questions,
        config.sampled(),
        config.samples,
    )
    start.require_other(training_run_of(context))
    start.require_revision(rollouts.policy_revision)
    cost = estimate_cost(root.path, rollouts)
    context.log.info(f"Base rollouts: {cost}")
    context.log_event(dg.AssetObservation("base_rollouts", metadata=cost.to_dict()))
    yield dg.Output({"set": rollouts.to_dict(), "estimate": str(cost)}, output_name="plan")
    yield from plan_shards(root.path, [rollouts], config, policy)


def _check_run(context: dg.OpExecutionContext, root: ArtifactRoot) -> dict[str, Form]:
    """Check the config of the later stages before anything is sampled; return their forms."""
    config = context.run.run_config
    forms = read_forms(config, {key.to_user_string() for key in assets_of(context)})
    if isinstance(grpo := forms.get("grpo_policy"), GrpoConfig):
        require_trainable(root.path, training_run_of(context) or "", config, grpo.trainer)
    return forms


@dg.op
@fails_in_a_sentence
def collect_base_rollouts(plan: dict, shards: list, root: ArtifactRoot) -> dg.Output[None]:
    """Store which rollouts were sampled, and describe them."""
    rollouts = RolloutSet.from_dict(plan["set"])
    tally = tally_rollouts(root.path, rollouts)
    require_valid(tally)
    file = base_rollouts_file(root.path)
    root.make(file.parent)
    write_json(file, rollouts.to_dict())
    return describe_rollouts(root.path, {"base": (rollouts, tally)}, shards, plan["estimate"])


@dg.graph_asset(
    group_name="difficulty",
    description="Rollouts of the policy that training starts from (start_from; by default the "
    "base policy) on the training questions.",
    config=config_of_step("plan_base_rollouts", BaseRolloutsConfig),
    ins={"gold_results": dg.AssetIn(dagster_type=dg.Nothing)},
    owners=MODEL_TEAM,
    code_version=version_for("base_rollouts"),
    kinds={"jsonl"},
    metadata=columns_of(Rollout),
)
def base_rollouts(gold_results: Any) -> Any:
    """Sample the policy on the training questions, in shards."""
    shards, plan = plan_base_rollouts(gold_results=gold_results)
    return collect_base_rollouts(plan, shards.map(sample_shard).collect())


@dg.asset(
    group_name="difficulty",
    deps=[base_rollouts, reward_strength],
    owners=MODEL_TEAM,
    code_version=version_for("training_prompts"),
    kinds={"jsonl"},
    metadata=columns_of(Question),
)
@fails_in_a_sentence
def training_prompts(
    context: dg.AssetExecutionContext, config: TrainingPromptsConfig, root: ArtifactRoot
) -> dg.MaterializeResult:
    """The training questions that the policy solves sometimes, but not always.

    ``prompts.jsonl`` is what every trainer reads: the questions in the order of the seed.
    """
    sampled = sampled_set(root.path)
    golds = load_golds(root.path, "train")
    questions = load_questions(root.path, "train")
    keys = set(sampled.keys)
    asked = [question for question in questions if question.key in keys]
    ratings = rate(asked, golds, tally_rollouts(root.path, sampled), config.bounds())
    if config.minimum_strength:
        strength = require_strength(root.path, "train")
        ratings = mark_weak(ratings, strength, config.minimum_strength)
    prompts = select(asked, ratings, config.seed)
    folder = root.make(prompts_folder(root.path))
    about = config.model_dump() | describe_selection(sampled, prompts, golds)
    about |= {"asked": len(asked), "dagster_run": context.run_id, "code": code_state()}
    write_prompts(folder, prompts, golds, ratings, about)
    unusable = sum(not usable(question, golds) for question in questions)
    return dg.MaterializeResult(
        metadata=describe_prompts(folder, questions, ratings, about, unusable),
        data_version=dg.DataVersion(about["fingerprint"]),
    )


@dg.asset_check(asset=training_prompts, blocking=True)
@fails_in_a_sentence
def prompts_can_teach(root: ArtifactRoot) -> dg.AssetCheckResult:
    """There are enough prompts, each once, with a gold result, solved sometimes but not always.

    Warns about questions that could not be rated because too few of their rollouts are valid.
    """
    folder = prompts_folder(root.path)
    about = read_about(folder)
    ratings = _table(folder / RATINGS, ["key", "solved", "valid", "kind"])
    prompts = _table(folder / PROMPTS, ["key", "db_id", "database", "question"])
    golds = _table(folder / GOLDS, ["key", "status", "row_count"])
    prompts["database_found"] = [Path(path).is_file() for path in prompts["database"]]
    frame = prompts.merge(ratings, on="key", how="left").merge(golds, on="key", how="left")
    most = about["most_solved"] or about["samples"]
    outcome = merge(
        [
            check_prompts(frame, about["minimum_prompts"], about["least_solved"], most),
            check_ratings(ratings),
        ]
    )
    dataset = dataset_folder(root.path, about["dataset"])
    (result,) = report_checks(root, dataset, "training_prompts", {"prompts_can_teach": outcome})
    return result


def _table(path: Path, columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(read_rows(path), columns=columns)
