"""Steps as processes of this machine, where a run says whose it is and which pool it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import dagster as dg

from pipelines.runs.orphans import note_process
from pipelines.runs.pool_waits import PoolWaits, stage_of, waited_pool

if TYPE_CHECKING:
    from dagster._core.execution.context.system import PlanOrchestrationContext
    from dagster._core.execution.plan.plan import ExecutionPlan
    from dagster._core.execution.retries import RetryMode
    from dagster._core.execution.step_dependency_config import StepDependencyConfig


class TellingExecutor(dg.Executor):
    """An executor that does what another does, and says what the run waits for.

    Dagster's own event of it is one for debugging, which is not printed.
    """

    def __init__(self, executor: dg.Executor) -> None:
        """Let ``executor`` run the steps."""
        self._executor = executor

    @property
    def retries(self) -> RetryMode:
        """Whether steps are tried again."""
        return self._executor.retries

    @property
    def step_dependency_config(self) -> StepDependencyConfig:
        """What a step needs of those before it."""
        return self._executor.step_dependency_config

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        """Run the steps; log a sentence for each stage that waits for a pool of other runs."""
        note_process(plan_context.instance, plan_context.dagster_run)
        waits = PoolWaits(plan_context.instance)
        for event in self._executor.execute(plan_context, execution_plan):
            if pool := waited_pool(event):
                stage = stage_of(event)
                if words := waits.sentence(plan_context.run_id, stage, pool):
                    plan_context.log.info(f"{stage} {words}.")
            yield event


def _telling(context: dg.InitExecutorContext) -> dg.Executor:
    return TellingExecutor(_create(context))


_create = cast(
    Callable[[dg.InitExecutorContext], dg.Executor],
    dg.multiprocess_executor.executor_creation_fn,
)
telling_processes = dg.ExecutorDefinition(
    name=dg.multiprocess_executor.name,
    config_schema=dg.multiprocess_executor.config_schema.as_field(),
    requirements=dg.multiprocess_executor.get_requirements,
    executor_creation_fn=_telling,
    description="Steps as processes of this machine; what the run waits for is said.",
)
"""Dagster's ``multiprocess_executor``, told about."""
