"""The pools that steps share over all runs: one for the GPUs, one for sampling."""

from __future__ import annotations

import os

from text2sql.errors import Text2SqlError

GPU_POOL = "gpu"
POOL_VARIABLE = "TEXT2SQL_SAMPLING_POOL"
SAMPLING_POOL = os.environ.get(POOL_VARIABLE) or "sampling"
"""The pool of steps that sample; ``sampling_pool`` refuses a name that is none."""


def sampling_pool() -> str:
    """Return the pool of steps that sample: ``sampling``, or what ``TEXT2SQL_SAMPLING_POOL`` says.

    That is ``gpu`` where sampling starts a vLLM server on the GPUs that training uses: the two
    then wait for each other. Raises Text2SqlError for another name.
    """
    name = os.environ.get(POOL_VARIABLE) or "sampling"
    if name not in ("sampling", GPU_POOL):
        raise Text2SqlError(f"{POOL_VARIABLE} is {name!r}: use sampling or {GPU_POOL}.")
    return name
