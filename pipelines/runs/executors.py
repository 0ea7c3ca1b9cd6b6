"""Who runs the steps of a run: processes of this machine, or pods of a Kubernetes cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import dagster as dg

from pipelines.runs.telling_executor import telling_processes
from resources.step_pods import EXECUTOR_VARIABLE
from text2sql.errors import Text2SqlError

STEPS_VARIABLE = "TEXT2SQL_STEPS"
STEP_PODS = {
    "service_account_name": "text2sql-steps",
    "step_k8s_config": {"pod_spec_config": {"automount_service_account_token": False}},
}
"""Step pods run what a model wrote: they may do nothing in the cluster, and have no token."""

MAX_CONCURRENT = 4
"""Steps of one run side by side: more would wait for each other's locks in SQLite storage."""

FORK = {"forkserver": {"preload_modules": ["pipelines.preload"]}}
START_METHOD = FORK if sys.platform == "linux" else {"spawn": {}}
"""Steps are forked from a process that has imported what they need."""


def choose_executor() -> dg.ExecutorDefinition:
    """Return the executor that ``TEXT2SQL_EXECUTOR`` names; processes where it is not set.

    ``TEXT2SQL_STEPS`` is how many steps of one run may run side by side; the launchpad's
    ``execution: {config: {max_concurrent: N}}`` says so for one run. Raises Text2SqlError for a
    value that makes no sense.
    """
    choices = {"processes": _processes, "kubernetes": _kubernetes, "in_process": _in_process}
    name = os.environ.get(EXECUTOR_VARIABLE) or "processes"
    if name not in choices:
        known = ", ".join(choices)
        raise Text2SqlError(f"{EXECUTOR_VARIABLE} is {name!r}: use one of {known}.")
    return choices[name]()


def _processes() -> dg.ExecutorDefinition:
    def settings(config: Mapping[str, Any]) -> dict[str, Any]:
        return {"max_concurrent": config["max_concurrent"], "start_method": START_METHOD}

    return telling_processes.configured(settings, config_schema=_steps())


def _kubernetes() -> dg.ExecutorDefinition:
    """Run each step in a pod of its own, which has what its op's ``dagster-k8s/config`` asks."""
    from dagster_k8s import k8s_job_executor

    def settings(config: Mapping[str, Any]) -> dict[str, Any]:
        return STEP_PODS | {"max_concurrent": config["max_concurrent"]}

    return k8s_job_executor.configured(settings, config_schema=_steps())


def _in_process() -> dg.ExecutorDefinition:
    return dg.in_process_executor


def _steps() -> dict[str, dg.Field]:
    return {
        "max_concurrent": dg.Field(
            int,
            default_value=_max_concurrent(),
            description="Steps of this run that run side by side.",
        )
    }


def _max_concurrent() -> int:
    text = os.environ.get(STEPS_VARIABLE) or str(MAX_CONCURRENT)
    if not (text.isascii() and text.isdigit() and int(text)):
        raise Text2SqlError(f"{STEPS_VARIABLE} is {text!r}: give a whole number from 1 on.")
    return int(text)
