"""The two jobs: one training run's whole life, and one day's answers.

A job holds one kind of partitions, and the lifecycle's are training runs; so the answers, which
are by day, have a job of their own.
"""

from __future__ import annotations

import dagster as dg

DAILY = dg.AssetSelection.assets("report_answers")

lifecycle = dg.define_asset_job(
    "lifecycle",
    selection=dg.AssetSelection.all() - DAILY,
    description="Ingest, filter, train, evaluate and promote: everything up to the champion.",
)

daily_answers = dg.define_asset_job(
    "daily_answers",
    selection=DAILY | dg.AssetSelection.assets("report_questions"),
    description="Let the champion answer the business questions for one day.",
)
"""The questions are read anew each day, so that an edited list takes effect."""
