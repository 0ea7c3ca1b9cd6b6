"""What the project does automatically once it is turned on: conditions of assets, and jobs.

Nothing here acts until a person turns on the sensor ``conditions`` or one of ``sensors.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from pipelines.jobs import EXCLUSIVE_TAG, RETRIED

EVALUATION = ("dev_rollouts", "dev_scores", "model_card")
"""What follows a training run, in order."""

STARTED_BY = "text2sql/started_by"
"""Names the sensor that requested a run."""

RETRAINING = (
    *("gold_results", "reward_strength", "known_issues", "base_rollouts", "training_prompts"),
    *("grpo_policy", *EVALUATION, "champion_policy"),
)
"""The lifecycle without the ingestion of a dataset."""

evaluation = dg.define_asset_job(
    "evaluation",
    selection=dg.AssetSelection.assets(*EVALUATION),
    description="Evaluate a training run that is trained: rollouts, scores, model card, gate. "
    "The champion does not change.",
    run_tags=RETRIED,
)

retraining = dg.define_asset_job(
    "retraining",
    selection=dg.AssetSelection.assets(*RETRAINING),
    description="Filter, train, evaluate and promote on the ingested dataset: the lifecycle "
    "without the ingestion.",
    run_tags=RETRIED | {EXCLUSIVE_TAG: "lifecycle"},
)

champion_rollback = dg.define_asset_job(
    "champion_rollback",
    selection=dg.AssetSelection.assets("champion_policy"),
    config={"ops": {"champion_policy": {"config": {"action": "roll_back", "reason": ""}}}},
    description="Restore the previous champion: give a 'reason' and launch.",
)

JOBS = (evaluation, retraining, champion_rollback)


def follows(*parents: str) -> dg.AutomationCondition:
    """Return the condition of an asset that is made again when one of these parents is updated.

    Other parents do not count: a new list of known issues does not evaluate every training run
    again. The asset waits for parents that are in progress or missing, and is not made if a
    blocking check of a parent failed.
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
    "policies: rollouts, then scores, then the model card, each once the one before is made and "
    "its blocking checks passed. Use it or the sensor finished_training, not both.",
)


def with_conditions(assets: Sequence[Any]) -> list[Any]:
    """Return the assets with their conditions; only the sensor ``conditions`` acts on these."""

    def give(spec: dg.AssetSpec) -> dg.AssetSpec:
        condition = CONDITIONS.get(spec.key.to_user_string())
        return spec.replace_attributes(automation_condition=condition) if condition else spec

    return [
        one.map_asset_specs(give) if isinstance(one, dg.AssetsDefinition) else one for one in assets
    ]
