"""Where the steps of a run execute: processes of this machine, or pods of a Kubernetes cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import dagster as dg

from resources.step_pods import EXECUTOR_VARIABLE
from text2sql.errors import Text2SqlError

STEPS_VARIABLE = "TEXT2SQL_STEPS"
STEP_PODS = {
    "service_account_name": "text2sql-steps",
    "step_k8s_config": {"pod_spec_config": {"automount_service_account_token": False}},
}
"""Step pods run what a model wrote: they may do nothing in the cluster, and have no token."""

MAX_CONCURRENT = 4
"""Steps of one run at the same time: more would wait for each other's locks in SQLite storage."""

FORK = {"forkserver": {"preload_modules": ["pipelines.preload"]}}
START_METHOD = FORK if sys.platform == "linux" else {"spawn": {}}
"""Steps are forked from a process that has imported what they need."""


def choose_executor() -> dg.ExecutorDefinition:
    """Return the executor that ``TEXT2SQL_EXECUTOR`` names; processes by default.

    ``TEXT2SQL_STEPS`` is how many steps of a run may execute at the same time; in the launchpad,
    ``execution: {config: {max_concurrent: N}}`` sets it for one run. Raises Text2SqlError for an
    invalid value.
    """
    name = os.environ.get(EXECUTOR_VARIABLE) or "processes"
    if name == "in_process":
        return dg.in_process_executor
    if name == "processes":
        return _configured(dg.multiprocess_executor, {"start_method": START_METHOD})
    if name == "kubernetes":  # each step in a pod, with what its op's dagster-k8s/config asks for
        from dagster_k8s import k8s_job_executor

        return _configured(k8s_job_executor, STEP_PODS)
    raise Text2SqlError(
        f"{EXECUTOR_VARIABLE} is {name!r}: use one of processes, kubernetes, in_process."
    )


def _configured(
    executor: dg.ExecutorDefinition, settings: Mapping[str, Any]
) -> dg.ExecutorDefinition:
    """Return an executor with these settings, of which only ``max_concurrent`` is left to a run."""

    def all_settings(config: Mapping[str, Any]) -> dict[str, Any]:
        return {**settings, "max_concurrent": config["max_concurrent"]}

    description = "Steps of this run that execute at the same time."
    field = dg.Field(int, default_value=_max_concurrent(), description=description)
    return executor.configured(all_settings, config_schema={"max_concurrent": field})


def _max_concurrent() -> int:
    text = os.environ.get(STEPS_VARIABLE) or str(MAX_CONCURRENT)
    if not (text.isascii() and text.isdigit() and int(text)):
        raise Text2SqlError(f"{STEPS_VARIABLE} is {text!r}: give a whole number from 1 on.")
    return int(text)
