"""Everything that Dagster loads."""

from __future__ import annotations

import sys

import dagster as dg

from assets import (
    bird,
    champion,
    dev_rollouts,
    difficulty,
    evaluation,
    gate,
    known_issues,
    report_questions,
    reporting,
    strength,
    training,
)
from pipelines.jobs import daily_answers, lifecycle
from pipelines.schedules import daily_answers_schedule
from resources.delivery import DeliveryResource
from resources.gate import PromotionGate
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from resources.trainer import TrainerResource

MODULES = [
    bird,
    strength,
    known_issues,
    difficulty,
    training,
    dev_rollouts,
    evaluation,
    champion,
    gate,
    report_questions,
    reporting,
]
MAX_CONCURRENT = 4
"""Steps of one run side by side: more would wait for each other's locks in SQLite storage."""

FORK = {"forkserver": {"preload_modules": ["pipelines.preload"]}}
START_METHOD = FORK if sys.platform == "linux" else {"spawn": {}}
"""Steps are forked from a process that has imported what they need."""

defs = dg.Definitions(
    assets=dg.load_assets_from_modules(MODULES),
    asset_checks=dg.load_asset_checks_from_modules(MODULES),
    jobs=[lifecycle, daily_answers],
    schedules=[daily_answers_schedule],
    resources={
        "root": ArtifactRoot(),
        "sandbox": SandboxResource(),
        "policy": PolicyResource(),
        "trainer": TrainerResource(),
        "reporting": ReportingDatabase(),
        "delivery": DeliveryResource(),
        "gate": PromotionGate(),
    },
    executor=dg.multiprocess_executor.configured(
        {"max_concurrent": MAX_CONCURRENT, "start_method": START_METHOD}
    ),
)
