"""The settings of a vLLM server, from which the launchpad's form and ``text2sql serve`` are made.

Their metadata are keywords of pydantic's ``Field``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from text2sql.errors import Text2SqlError

PYTHON_VARIABLE = "TEXT2SQL_VLLM_PYTHON"


@dataclass(frozen=True)
class VllmOptions:
    """How a policy is served; ``extra_args`` are passed to vLLM as they are, after all others."""

    python: Path | str | None = field(
        default=None,
        metadata={"description": "Python of an environment with vLLM. "
                  f"Default: {PYTHON_VARIABLE}, else what 'make vllm' or 'make vllm-cpu' built."},
    )  # fmt: skip
    data_parallel_size: int = field(
        default=1,
        metadata={
            "description": "Copies of the model, each on GPUs of its own.",
            "ge": 1,
            "le": 64,
        },
    )
    gpu_memory: float = field(
        default=0.9,
        metadata={"description": "Share of each GPU's memory that vLLM takes.", "gt": 0, "le": 1},
    )
    ready_seconds: float = field(
        default=900.0,
        metadata={"description": "Seconds that the server may take to start.", "gt": 0},
    )
    extra_args: tuple[str, ...] = field(
        default=(), metadata={"description": "More arguments for vLLM, like --max-model-len."}
    )

    @property
    def gpus(self) -> int:
        """How many GPUs vLLM will use: copies times the GPUs that each is spread over.

        Raises Text2SqlError if ``extra_args`` give no number of GPUs for that.
        """
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
        parser.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
        try:
            known, _ = parser.parse_known_args(self.extra_args)
        except argparse.ArgumentError as error:
            raise Text2SqlError(f"The extra arguments for vLLM are invalid: {error}.") from error
        spread: int = known.tensor_parallel_size * known.pipeline_parallel_size
        return self.data_parallel_size * spread
