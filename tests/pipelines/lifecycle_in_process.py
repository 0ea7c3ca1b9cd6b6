"""The project's definitions with steps in the run's own process, which spares their start-up."""

import dagster as dg

from pipelines.definitions import defs as project

defs = dg.Definitions(
    assets=project.assets,
    asset_checks=project.asset_checks,
    jobs=project.jobs,
    resources=project.resources,
    executor=dg.in_process_executor,
)
