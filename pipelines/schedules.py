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
    description="Answers what is due on the day, at six in the time zone TEXT2SQL_TIME_ZONE.",
)
"""The run key is the day: however often a day's tick comes, it starts one run.

The run answers the schedule groups that are due on its day. For a group that is to be answered at
another hour, or on other days, add a schedule of the same job whose run config gives
``report_answers`` the group.
"""
