"""What the project does by itself once it is turned on: conditions of assets, and jobs.

Nothing here acts before a person turns on the sensor ``conditions`` or one of ``sensors.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from pipelines.jobs import EXCLUSIVE_TAG, RETRIED

EVALUATION = ("dev_rollouts", "dev_scores", "model_card")
"""What follows a training run, in order."""

STARTED_BY = "text2sql/started_by"
"""Names the sensor that asked for a run."""

RETRAINING = (
    *("gold_results", "reward_strength", "known_issues", "base_rollouts", "training_prompts"),
    *("grpo_policy", *EVALUATION, "champion_policy"),
)
"""The lifecycle without what ingests a dataset."""

evaluation = dg.define_asset_job(
    "evaluation",
    selection=dg.AssetSelection.assets(*EVALUATION),
    description="Evaluate a training run that is trained: rollouts, scores, model card, gate. "
    "The champion stays who it is.",
    run_tags=RETRIED,
)

retraining = dg.define_asset_job(
    "retraining",
    selection=dg.AssetSelection.assets(*RETRAINING),
    description="Filter, train, evaluate and decide on the dataset that is ingested: the "
    "lifecycle without the ingestion.",
    run_tags=RETRIED | {EXCLUSIVE_TAG: "lifecycle"},
)

champion_rollback = dg.define_asset_job(
    "champion_rollback",
    selection=dg.AssetSelection.assets("champion_policy"),
    config={"ops": {"champion_policy": {"config": {"action": "roll_back", "reason": ""}}}},
    description="Bring the champion before the present one back: say why in 'reason' and launch.",
)

JOBS = (evaluation, retraining, champion_rollback)


def follows(*parents: str) -> dg.AutomationCondition:
    """Return the condition of an asset that is made anew when one of these parents was.

    Only what it was made from directly counts: a new list of known issues does not evaluate
    every training run there ever was. It waits for parents that are in progress or missing, and
    stays away where a blocking check of a parent failed.
    """
    condition = dg.AutomationCondition
    updated = condition.any_deps_updated().allow(dg.AssetSelection.assets(*parents))
    return (
        updated.since_last_handled()
        & ~condition.any_deps_missing()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
        & condition.all_deps_blocking_checks_passed()
    ).with_label(f"follows {' and '.join(parents)}")


CONDITIONS = {
    "gold_results": follows("bird_questions", "bird_databases"),
    "dev_rollouts": follows("grpo_policy"),
    "dev_scores": follows("dev_rollouts"),
    "model_card": follows("dev_scores"),
}

conditions = dg.AutomationConditionSensorDefinition(
    "conditions",
    target=dg.AssetSelection.assets(*CONDITIONS),
    default_status=dg.DefaultSensorStatus.STOPPED,
    minimum_interval_seconds=30,
    run_tags={STARTED_BY: "conditions"},
    description="Runs the gold queries of newly ingested data, and evaluates newly trained "
    "policies: rollouts, then scores, then the model card, each when the one before is there and "
    "its blocking checks passed. Use it or the sensor finished_training, not both.",
)


def with_conditions(assets: Sequence[Any]) -> list[Any]:
    """Give the assets their conditions; without the sensor ``conditions`` they do nothing."""

    def give(spec: dg.AssetSpec) -> dg.AssetSpec:
        condition = CONDITIONS.get(spec.key.to_user_string())
        return spec.replace_attributes(automation_condition=condition) if condition else spec

    return [
        one.map_asset_specs(give) if isinstance(one, dg.AssetsDefinition) else one for one in assets
    ]
