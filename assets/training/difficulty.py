"""The difficulty filter: a policy learns from questions that it solves sometimes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import SuiteResult, expect, merge, no_null, validate
from assets.checks.view import report_checks
from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import assets_of, require_training_run, training_run_of
from assets.common.plots import plot, records
from assets.common.sources import version_for
from assets.data.own_dataset import own_current
from assets.data.strength import reward_strength
from assets.rollouts.sampling import describe_rollouts, plan_shards, sample_shard
from assets.rollouts.sets import rollout_set
from assets.training.config import (
    BaseRolloutsConfig,
    GrpoConfig,
    TrainingPromptsConfig,
    read_forms,
    require_questions,
    require_trainable,
)
from resources.artifact_root import ArtifactRoot
from resources.forms import config_of_step
from resources.policy import PolicyResource
from text2sql.common.artifacts import base_rollouts_file, dataset_folder, prompts_folder
from text2sql.common.counting import counted
from text2sql.common.json_files import read_rows, write_json
from text2sql.common.provenance import code_state
from text2sql.datasets.stored import load_golds, load_questions
from text2sql.datasets.strength import require_strength
from text2sql.questions import Question
from text2sql.rollouts.sets import RolloutSet
from text2sql.rollouts.store import Rollout
from text2sql.training.difficulty import (
    estimate_cost,
    mark_weak,
    rate,
    require_valid,
    select,
    tally_rollouts,
    usable,
)
from text2sql.training.prompts import (
    GOLDS,
    PROMPTS,
    RATINGS,
    read_about,
    sampled_set,
    write_prompts,
)
from text2sql.training.runs import find_start
from text2sql.training.view import filter_summary, kept_chart, kinds_table, solved_chart


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
    config_of_run = context.run.run_config
    forms = read_forms(config_of_run, {key.to_user_string() for key in assets_of(context)})
    # The later stages are checked as well, before anything is sampled.
    if isinstance(grpo := forms.get("grpo_policy"), GrpoConfig):
        run = training_run_of(context) or ""
        require_trainable(root.path, run, config_of_run, grpo.trainer)
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
    golds, questions = load_golds(root.path, "train"), load_questions(root.path, "train")
    keys = set(sampled.keys)
    asked = [question for question in questions if question.key in keys]
    ratings = rate(asked, golds, tally_rollouts(root.path, sampled), config)
    if config.minimum_strength:
        strength = require_strength(root.path, "train")
        ratings = mark_weak(ratings, strength, config.minimum_strength)
    prompts = select(asked, ratings, config.seed)
    folder = root.make(prompts_folder(root.path))
    settings = config.model_dump() | {"asked": len(asked)}
    settings |= {"dagster_run": context.run_id, "code": code_state()}
    about = write_prompts(folder, sampled, prompts, golds, ratings, settings)
    unusable = sum(not usable(question, golds) for question in questions)
    by_database = kept_chart(asked, ratings, lambda question: question.db_id)
    by_difficulty = kept_chart(asked, ratings, lambda question: question.difficulty or "none")
    metadata = {
        "what happened": filter_summary(ratings, about),
        "prompts": about["kept"],
        "kinds": records(kinds_table(ratings, len(questions), unusable)),
        "solved": plot(folder / "solved.png", solved_chart(ratings, about)),
        "kept by database": plot(folder / "kept_by_database.png", by_database),
        "kept by difficulty": plot(folder / "kept_by_difficulty.png", by_difficulty),
        "fingerprint": about["fingerprint"],
        "policy revision": about["policy_revision"],
        "path": dg.MetadataValue.path(folder),
    }
    return dg.MaterializeResult(
        metadata=metadata, data_version=dg.DataVersion(about["fingerprint"])
    )


@dg.asset_check(asset=training_prompts, blocking=True)
@fails_in_a_sentence
def prompts_can_teach(root: ArtifactRoot) -> dg.AssetCheckResult:
    """There are enough prompts, each once, with a gold result, solved sometimes but not always.

    Warns about questions that could not be rated because too few of their rollouts are valid.
    """
    folder = prompts_folder(root.path)
    about = read_about(folder)
    ratings = pd.DataFrame(read_rows(folder / RATINGS), columns=["key", "solved", "valid", "kind"])
    prompts = pd.DataFrame(
        read_rows(folder / PROMPTS), columns=["key", "db_id", "database", "question"]
    )
    golds = pd.DataFrame(read_rows(folder / GOLDS), columns=["key", "status", "row_count"])
    prompts["database_found"] = [Path(path).is_file() for path in prompts["database"]]
    frame = prompts.merge(ratings, on="key", how="left").merge(golds, on="key", how="left")
    most = about["most_solved"] or about["samples"]
    bounds = about["minimum_prompts"], about["least_solved"], most
    check = lambda: merge([check_prompts(frame, *bounds), check_ratings(ratings)])  # noqa: E731
    dataset = dataset_folder(root.path, about["dataset"])
    (result,) = report_checks(root, dataset, "training_prompts", {"prompts_can_teach": check})
    return result


def check_prompts(frame: pd.DataFrame, minimum: int, least: int = 1, most: int = 7) -> SuiteResult:
    """Check the prompts: one row each, with rating, gold result and ``database_found``."""
    enough = f"at least {minimum:,} questions are solved sometimes but not always"
    solved = f"each is solved {least} to {most} times"
    database = "every prompt has its database"
    gold = "every prompt has a gold result with rows"
    between = "ColumnValuesToBeBetween"
    expectations = [
        expect("TableRowCountToBeBetween", enough, min_value=minimum),
        expect("ColumnValuesToBeUnique", "no prompt occurs twice", column="key"),
        no_null("key", "every prompt has a key"),
        no_null("solved", solved),
        expect(between, solved, column="solved", min_value=least, max_value=most),
        expect(
            "ColumnPairValuesAToBeGreaterThanB",
            "none is always solved",
            column_A="valid",
            column_B="solved",
        ),
        expect("ColumnValuesToBeInSet", database, column="database_found", value_set=[True]),
        no_null("database_found", database),
        no_null("row_count", gold),
        expect(between, gold, column="row_count", min_value=1),
    ]
    shown = ("key", "db_id", "question", "solved", "valid", "row_count", "database")
    return replace(validate(frame, expectations, shown), what=counted(len(frame), "kept prompt"))


def check_ratings(frame: pd.DataFrame) -> SuiteResult:
    """Warn about questions that could not be rated: too many of their rollouts are invalid."""
    sentence, unknown = "every question that was asked has enough valid rollouts", ["unknown"]
    expectations = [
        expect("ColumnValuesToNotBeInSet", sentence, "warning", column="kind", value_set=unknown),
        no_null("kind", sentence, "warning"),
    ]
    what = counted(len(frame), "question that was asked", "questions that were asked")
    outcome = validate(frame, expectations, ("key", "solved", "valid", "kind"))
    return replace(outcome, what=what)
