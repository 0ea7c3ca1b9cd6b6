"""The pools that steps of all runs share: one for the GPUs, one for sampling."""

from __future__ import annotations

import os

from text2sql.errors import Text2SqlError

GPU_POOL = "gpu"
POOL_VARIABLE = "TEXT2SQL_SAMPLING_POOL"
SAMPLING_POOL = os.environ.get(POOL_VARIABLE) or "sampling"
"""The pool of steps that sample; ``sampling_pool`` checks the name."""


def sampling_pool() -> str:
    """Return the pool of steps that sample: ``TEXT2SQL_SAMPLING_POOL``, or ``sampling``.

    Use ``gpu`` if sampling starts a vLLM server on the GPUs that training uses: the two then wait
    for each other. Raises Text2SqlError for any other name.
    """
    name = os.environ.get(POOL_VARIABLE) or "sampling"
    if name not in ("sampling", GPU_POOL):
        raise Text2SqlError(f"{POOL_VARIABLE} is {name!r}: use sampling or {GPU_POOL}.")
    return name
