"""The jobs that people start: a training run's whole life, training alone, a day's answers.

A job holds one kind of partitions, and the lifecycle's are training runs; so the answers, which
are by day, have a job of their own. The jobs that sensors start are in
``pipelines/automation.py``, the one that tidies up is in ``pipelines/runs/retention.py``.
"""

from __future__ import annotations

import dagster as dg

DAILY = dg.AssetSelection.assets("report_answers")
HELD_OUT = dg.AssetSelection.assets("held_out_rollouts", "held_out_scores")
"""The final figure on a held-out split: never part of a lifecycle, which chooses by its numbers."""

RETRIED = {"dagster/max_retries": "1", "dagster/retry_strategy": "FROM_FAILURE"}
"""A run whose process died is repeated once, from where it was: every stage of the jobs keeps
what it has finished. One of which a stage failed is not (dagster.yaml)."""

EXCLUSIVE_TAG = "text2sql/exclusive"
"""Of the runs with the same value, the queue lets one go at a time (dagster.yaml)."""

HALF_A_DAY = 12 * 60 * 60

lifecycle = dg.define_asset_job(
    "lifecycle",
    selection=dg.AssetSelection.all() - DAILY - HELD_OUT,
    description="Ingest, filter, train, evaluate and promote: everything up to the champion.",
    run_tags=RETRIED | {EXCLUSIVE_TAG: "lifecycle"},
)
"""Two lifecycles would sample the same base rollouts and train on the same GPUs."""

TRAINING = dg.AssetSelection.assets(
    *("base_rollouts", "training_prompts", "grpo_policy", "dev_rollouts", "dev_scores"),
    "model_card",
)

training = dg.define_asset_job(
    "training",
    selection=TRAINING - dg.AssetSelection.checks_for_assets("model_card"),
    description="Filter, train and evaluate one training run; who is champion stays as it is.",
    run_tags=RETRIED | {EXCLUSIVE_TAG: "lifecycle"},
)
"""What text2sql train starts. The promotion gate is asked when somebody is to take over."""

daily_answers = dg.define_asset_job(
    "daily_answers",
    selection=DAILY | dg.AssetSelection.assets("report_questions"),
    description="Let the champion answer the business questions for one day.",
    run_tags=RETRIED | {"dagster/priority": "1", "dagster/max_runtime": str(HALF_A_DAY)},
)
"""The questions are read anew each day, so that an edited list takes effect. People wait for the
answers, so they go before what else is queued; a run that hangs makes room for the next day's."""
