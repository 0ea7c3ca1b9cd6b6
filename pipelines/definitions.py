"""Everything that Dagster loads."""

from __future__ import annotations

import dagster as dg

from assets.common.pools import sampling_pool
from assets.data import bird, known_issues, strength
from assets.evaluation import checks as evaluation_checks
from assets.evaluation import dev_rollouts, held_out
from assets.evaluation import dev_scores as evaluation
from assets.promotion import champion, gate
from assets.reporting import answers as reporting
from assets.reporting import questions as report_questions
from assets.training import difficulty
from assets.training import grpo as training
from pipelines import automation
from pipelines.code_links import with_code_links
from pipelines.executors import choose_executor
from pipelines.jobs import daily_answers, daily_answers_schedule, lifecycle
from pipelines.jobs import training as training_job
from pipelines.retention import remove_old_runs, remove_old_runs_schedule
from pipelines.sensors import SENSORS
from resources.artifact_root import ArtifactRoot
from resources.automation import AutomationSettings
from resources.delivery import DeliveryResource
from resources.gate import PromotionGate
from resources.policy import PolicyResource
from resources.processes import end_step_with_run
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
    evaluation_checks,
    held_out,
    champion,
    gate,
    report_questions,
    reporting,
]

sampling_pool()  # refuses an invalid name before Dagster meets it in a step
end_step_with_run()  # a run's process, too, which a code server spawns: it ends with that server

defs = dg.Definitions(
    assets=automation.with_conditions(with_code_links(dg.load_assets_from_modules(MODULES))),
    asset_checks=dg.load_asset_checks_from_modules(MODULES),
    jobs=[lifecycle, training_job, daily_answers, remove_old_runs, *automation.JOBS],
    schedules=[daily_answers_schedule, remove_old_runs_schedule],
    sensors=[automation.conditions, *SENSORS],
    resources={
        "root": ArtifactRoot(),
        "sandbox": SandboxResource(),
        "policy": PolicyResource(),
        "trainer": TrainerResource(),
        "reporting": ReportingDatabase(),
        "delivery": DeliveryResource(),
        "gate": PromotionGate(),
        "automation": AutomationSettings(),
    },
    executor=choose_executor(),
)
