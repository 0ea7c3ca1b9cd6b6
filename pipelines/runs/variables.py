"""Whether the environment variables that Dagster's definitions read make sense."""

from __future__ import annotations

from assets.common.pools import sampling_pool
from pipelines.pools import sampling_slots
from pipelines.runs.code_links import git_url
from pipelines.runs.executors import choose_executor
from resources.step_pods import sampling_pod, training_pod


def check_variables() -> None:
    """Refuse a variable before Dagster loads the definitions: it would show a fault of the code.

    Raises Text2SqlError.
    """
    from assets.common.partitions import (
        project_time_zone,  # the module refuses it as it is imported
    )

    for read in (
        project_time_zone,
        sampling_pool,
        sampling_slots,
        sampling_pod,
        training_pod,
        choose_executor,
        git_url,
    ):
        read()
