"""When things happen by themselves."""

from __future__ import annotations

import dagster as dg

from pipelines.jobs import daily_answers

daily_answers_schedule = dg.build_schedule_from_partitioned_job(
    daily_answers,
    name="daily_answers_schedule",
    hour_of_day=6,
    minute_of_hour=0,
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Answers the day's questions at six in the time zone of the days' partitions.",
)
"""The run key is the day: however often a day's tick comes, it starts one run."""
