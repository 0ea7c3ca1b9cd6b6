"""A job of two steps that need the GPU, for the test of its pool: each notes when it had it."""

import json
import os
import time
from pathlib import Path

import dagster as dg


@dg.op(pool="gpu")
def use_gpu():
    """Hold the GPU for a moment."""
    began = time.monotonic()
    time.sleep(0.4)
    with (Path(os.environ["TEXT2SQL_ROOT"]) / "uses.jsonl").open("a") as uses:
        uses.write(json.dumps([began, time.monotonic()]) + "\n")


@dg.job(executor_def=dg.in_process_executor)
def gpu_job():
    """Use the GPU twice."""
    use_gpu.alias("first")()
    use_gpu.alias("second")()
