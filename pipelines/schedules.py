"""When things happen by themselves."""

from __future__ import annotations

import dagster as dg

from assets.common.partitions import TIME_ZONE
from pipelines.jobs import daily_answers
from pipelines.runs.retention import remove_old_runs

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

remove_old_runs_schedule = dg.ScheduleDefinition(
    name="remove_old_runs_schedule",
    job=remove_old_runs,
    cron_schedule="0 3 * * 0",
    execution_timezone=TIME_ZONE,
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Removes runs older than 90 days, on Sundays at three.",
)
