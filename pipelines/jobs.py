"""The jobs that people start: a training run's whole life, training alone, a day's answers.

A job has one kind of partition, and the lifecycle's are training runs; so the answers, which are
by day, have a job of their own, and its schedule. The jobs that sensors start are in
``pipelines/automation.py``, the one that removes old runs is in ``pipelines/retention.py``.
"""

from __future__ import annotations

import dagster as dg

DAILY = dg.AssetSelection.assets("report_answers")
HELD_OUT = dg.AssetSelection.assets("held_out_rollouts", "held_out_scores")
"""The final figure on a held-out split: never part of a lifecycle, which chooses by its numbers."""

RETRIED = {"dagster/max_retries": "1", "dagster/retry_strategy": "FROM_FAILURE"}
"""A run whose process died is repeated once, from where it stopped: every stage of the jobs keeps
what it has finished. A run with a failed stage is not repeated (dagster.yaml)."""

EXCLUSIVE_TAG = "text2sql/exclusive"
"""The queue starts one run at a time of those with the same value (dagster.yaml)."""

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
    description="Filter, train and evaluate one training run; the champion does not change.",
    run_tags=RETRIED | {EXCLUSIVE_TAG: "lifecycle"},
)
"""What text2sql train starts. The promotion gate runs when a policy is promoted."""

daily_answers = dg.define_asset_job(
    "daily_answers",
    selection=DAILY | dg.AssetSelection.assets("report_questions"),
    description="Let the champion answer the business questions for one day.",
    run_tags=RETRIED | {"dagster/priority": "1", "dagster/max_runtime": str(HALF_A_DAY)},
)
"""The questions are read anew each day, so that an edited list takes effect. People wait for the
answers, so they go before what else is queued; a run that hangs makes room for the next day's."""

daily_answers_schedule = dg.build_schedule_from_partitioned_job(
    daily_answers,
    name="daily_answers_schedule",
    hour_of_day=6,
    minute_of_hour=0,
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Answers what is due on the day, at six in the time zone TEXT2SQL_TIME_ZONE.",
)
"""The run key is the day: however often a day's tick comes, it starts one run.

The run answers the schedule groups that are due on its day. For a group that is due at another
hour, or on other days, add a schedule of the same job whose run config gives ``report_answers``
the group.
"""
