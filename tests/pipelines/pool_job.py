"""A job that uses the GPU once, in a process as the project's own steps, for the test of waits."""

import dagster as dg

from pipelines.runs.telling_executor import telling_processes


@dg.op(pool="gpu")
def use_gpu():
    """Hold the GPU."""


@dg.job(executor_def=telling_processes.configured({"max_concurrent": 1}))
def one_use():
    """Use the GPU once."""
    use_gpu()
