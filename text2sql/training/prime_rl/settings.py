"""What can be set about a GRPO run with prime-rl. The defaults are those of the published run:
200 steps of 32 prompts, 8 rollouts a prompt, temperature 1, 12 turns.

Three presets, one class each: ``SingleNode`` (8 GPUs, all weights), ``TwoGpusLora`` and
``SlurmNodes``. The fields are scalars, so that Dagster's launchpad can show them as a form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from text2sql.agent.settings import AgentSettings
from text2sql.errors import Text2SqlError


class PrimeRlSettings(BaseModel):
    """What every preset has in common."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(default=200, ge=1, le=100_000, description="Optimizer steps.")
    prompts_per_step: int = Field(default=32, ge=1, le=4096, description="Prompts a step.")
    group_size: int = Field(default=8, ge=2, le=128, description="Rollouts a prompt.")
    temperature: float = Field(
        default=1.0, gt=0, le=2, description="Of the training rollouts; evaluations are greedy."
    )
    learning_rate: float = Field(default=1e-6, gt=0, le=1e-2, description="AdamW's, constant.")
    kl_tau: float = Field(default=1e-3, ge=0, le=1, description="Weight of the loss's KL term.")
    max_turns: int = Field(default=12, ge=1, le=100, description="Replies in one rollout.")
    reply_tokens: int = Field(default=2048, ge=16, le=65_536, description="Tokens in one reply.")
    sequence_tokens: int = Field(
        default=16_384,
        ge=1024,
        le=1_048_576,
        description="Tokens in a whole rollout: the trainer's sequence and the server's context.",
    )
    thinking: bool = Field(default=False, description="Let the model think before it replies.")
    rollout_seconds: float = Field(
        default=600.0, gt=0, le=86_400, description="A rollout that takes longer is dropped."
    )
    off_policy_steps: int = Field(
        default=8, ge=0, le=64, description="Rollouts drawn by older weights than this are dropped."
    )
    rollouts_in_flight: int = Field(
        default=512, ge=2, le=65_536, description="The most rollouts that are drawn at once."
    )
    environment_workers: int = Field(
        default=8, ge=1, le=256, description="Processes that run the agent and its SQL."
    )
    save_every: int = Field(default=20, ge=1, le=10_000, description="Steps between checkpoints.")
    checkpoints_kept: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="Checkpoints kept; 110 GB each where all weights of 9B are trained.",
    )
    evaluate_every: int = Field(
        default=50, ge=0, le=10_000, description="Steps between evaluations in the run; 0 for none."
    )
    evaluation_questions: int = Field(
        default=256, ge=1, le=100_000, description="Questions of one evaluation in the run."
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Of the order of the prompts.")
    gpus_per_node: int = Field(default=8, ge=1, le=64, description="GPUs that one machine has.")
    tensor_parallel: int = Field(
        default=1, ge=1, le=64, description="GPUs that share one copy of the model for inference."
    )
    gpu_memory: float = Field(
        default=0.9, gt=0.1, le=0.98, description="Share of its GPU's memory that vLLM takes."
    )
    router_port: int = Field(
        default=8000, ge=1024, le=65_535, description="Where the inference servers are reached."
    )
    engine_port: int = Field(
        default=8100, ge=1024, le=65_535, description="Of the inference server behind it."
    )
    environment_port: int = Field(
        default=5000,
        ge=1024,
        le=65_534,
        description="Of the environment's server for training; the next is for evaluation.",
    )
    lora_rank: int = Field(default=0, ge=0, le=512, description="0 trains all weights.")
    lora_alpha: float = Field(default=64.0, gt=0, le=4096, description="Scale of the adapter.")

    @property
    def rollouts_per_step(self) -> int:
        """How many rollouts one optimizer step learns from."""
        return self.prompts_per_step * self.group_size

    def agent_settings(self, base: AgentSettings) -> AgentSettings:
        """Return the agent's settings: those of the base policy, with the limits set here."""
        return replace(base, max_turns=self.max_turns, max_tokens=self.reply_tokens)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.reply_tokens >= self.sequence_tokens:
            raise ValueError(
                f"reply_tokens ({self.reply_tokens}) leave no room for the question in "
                f"sequence_tokens ({self.sequence_tokens})"
            )
        if self.rollouts_in_flight < 2 * self.group_size:
            raise ValueError(
                f"rollouts_in_flight ({self.rollouts_in_flight}) must be at least twice "
                f"group_size ({self.group_size})"
            )
        ports = (self.router_port, self.engine_port, self.environment_port)
        if len({*ports, self.environment_port + 1}) <= len(ports):
            raise ValueError(
                "router_port, engine_port, environment_port and the port after it must be four "
                f"different ports, not {self.router_port}, {self.engine_port}, "
                f"{self.environment_port} and {self.environment_port + 1}"
            )
        return self


class SingleNode(PrimeRlSettings):
    """One machine. The defaults train all weights of a 9B model on 8 GPUs."""

    train_gpus: int = Field(default=4, ge=1, le=64, description="GPUs that train.")
    inference_gpus: int = Field(default=4, ge=1, le=64, description="GPUs that draw rollouts.")

    @model_validator(mode="after")
    def _fits_machine(self) -> Self:
        wanted = self.train_gpus + self.inference_gpus
        if wanted > self.gpus_per_node:
            raise ValueError(
                f"train_gpus and inference_gpus are {wanted} together, "
                f"gpus_per_node is {self.gpus_per_node}"
            )
        _must_divide(self.inference_gpus, "inference_gpus", self.tensor_parallel)
        return self


class TwoGpusLora(SingleNode):
    """One machine with 2 GPUs of 80 GB: an adapter instead of all weights."""

    prompts_per_step: int = Field(default=16, ge=1, le=4096, description="Prompts a step.")
    learning_rate: float = Field(default=1e-5, gt=0, le=1e-2, description="AdamW's, constant.")
    sequence_tokens: int = Field(
        default=8192,
        ge=1024,
        le=1_048_576,
        description="Tokens in a whole rollout: the trainer's sequence and the server's context.",
    )
    rollouts_in_flight: int = Field(
        default=128, ge=2, le=65_536, description="The most rollouts that are drawn at once."
    )
    environment_workers: int = Field(
        default=4, ge=1, le=256, description="Processes that run the agent and its SQL."
    )
    gpus_per_node: int = Field(default=2, ge=1, le=64, description="GPUs that one machine has.")
    train_gpus: int = Field(default=1, ge=1, le=64, description="GPUs that train.")
    inference_gpus: int = Field(default=1, ge=1, le=64, description="GPUs that draw rollouts.")
    lora_rank: int = Field(default=32, ge=1, le=512, description="Rank of the adapter.")


class SlurmNodes(PrimeRlSettings):
    """Several equal machines that Slurm hands out; they share a file system."""

    train_nodes: int = Field(default=2, ge=1, le=256, description="Machines that train.")
    inference_nodes: int = Field(default=2, ge=1, le=256, description="Machines that draw.")
    partition: str = Field(default="cluster", min_length=1, description="Slurm's partition.")
    account: str = Field(default="", description="Slurm's account; empty for the user's own.")
    time_limit: str = Field(
        default="24:00:00",
        pattern=r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$",
        description="The longest that the job may run: hours:minutes:seconds, days- before it.",
    )
    poll_seconds: float = Field(
        default=10.0, ge=0.2, le=600, description="Between two questions to Slurm about the job."
    )
    failure_wait_seconds: int = Field(
        default=300,
        ge=0,
        le=3600,
        description="How long a failed job keeps its machines, to finish writing a checkpoint.",
    )

    @model_validator(mode="after")
    def _fits_nodes(self) -> Self:
        _must_divide(self.gpus_per_node, "gpus_per_node", self.tensor_parallel)
        return self


OPERATIONAL = frozenset(
    (
        *("environment_workers", "checkpoints_kept", "save_every", "gpu_memory"),
        *("router_port", "engine_port", "environment_port"),
        *("partition", "account", "time_limit", "poll_seconds", "failure_wait_seconds"),
    )
)
"""Settings that say how a run is carried out: it stays the same run when they change."""

PRESETS: dict[str, type[PrimeRlSettings]] = {
    "8gpu": SingleNode,
    "2gpu-lora": TwoGpusLora,
    "slurm": SlurmNodes,
}
"""The presets by their names."""


def read_settings(preset: str, values: Mapping[str, Any]) -> PrimeRlSettings:
    """Return a preset with these values changed.

    Raises Text2SqlError, in one sentence, for an unknown preset or name, a value out of bounds,
    or values that contradict each other.
    """
    if preset not in PRESETS:
        raise Text2SqlError(f"There is no preset {preset!r}; there are {', '.join(PRESETS)}.")
    try:
        return PRESETS[preset].model_validate(dict(values))
    except ValidationError as error:
        raise Text2SqlError(f"The settings of the training run: {_sentence(error)}.") from error


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"there is no setting {name}"
    reason = first["msg"].removeprefix("Value error, ")
    return f"{name} is {first['input']!r}: {reason}" if name else reason


def _must_divide(gpus: int, name: str, tensor_parallel: int) -> None:
    if gpus % tensor_parallel:
        raise ValueError(
            f"{name} ({gpus}) is not a multiple of tensor_parallel ({tensor_parallel})"
        )
