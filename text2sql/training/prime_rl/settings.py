"""The settings and the plan of a GRPO run with prime-rl.

The defaults are those of the published run: 200 steps of 32 prompts, 8 rollouts per prompt,
temperature 1, 12 turns. One class for each backend: ``SingleNode`` (8 GPUs, all weights),
``TwoGpusLora`` and ``SlurmNodes``. The fields are scalars, so that Dagster's launchpad can show
them as a form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from text2sql.agent.settings import AgentSettings
from text2sql.errors import Text2SqlError
from text2sql.training import settings as shared
from text2sql.training.prime_rl.checkout import prime_rl_directory

# Settings of which a backend changes the default.
SequenceTokens = Annotated[
    int,
    Field(
        ge=1024,
        le=1_048_576,
        description="Tokens in a whole rollout: the trainer's sequence and the server's context.",
    ),
]
RolloutsInFlight = Annotated[
    int, Field(ge=2, le=65_536, description="Maximum number of rollouts drawn at once.")
]
Workers = Annotated[
    int, Field(ge=1, le=256, description="Processes that run the agent and its SQL.")
]
GpusPerNode = Annotated[int, Field(ge=1, le=64, description="GPUs per machine.")]
TrainGpus = Annotated[int, Field(ge=1, le=64, description="GPUs that train.")]
InferenceGpus = Annotated[int, Field(ge=1, le=64, description="GPUs that draw rollouts.")]
Port = Annotated[int, Field(ge=1024, le=65_535)]


class PrimeRlSettings(shared.Settings):
    """What all backends have in common."""

    steps: shared.Steps = 200
    prompts_per_step: shared.PromptsPerStep = 32
    group_size: shared.GroupSize = 8
    temperature: float = Field(
        default=1.0,
        gt=0,
        le=2,
        description="Temperature of the training rollouts; evaluations are greedy.",
    )
    learning_rate: shared.LearningRate = 1e-6
    kl_tau: float = Field(default=1e-3, ge=0, le=1, description="Weight of the loss's KL term.")
    max_turns: int = Field(default=12, ge=1, le=100, description="Replies per rollout.")
    reply_tokens: int = Field(default=2048, ge=16, le=65_536, description="Tokens per reply.")
    sequence_tokens: SequenceTokens = 16_384
    thinking: bool = Field(default=False, description="Let the model think before it replies.")
    rollout_seconds: float = Field(
        default=600.0, gt=0, le=86_400, description="Rollouts that take longer are dropped."
    )
    off_policy_steps: int = Field(
        default=8, ge=0, le=64, description="Rollouts drawn with older weights are dropped."
    )
    rollouts_in_flight: RolloutsInFlight = 512
    environment_workers: Workers = 8
    save_every: shared.SaveEvery = 20
    checkpoints_kept: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="Checkpoints kept; 110 GB each when all weights of a 9B model are trained.",
    )
    evaluate_every: int = Field(
        default=50, ge=0, le=10_000, description="Steps between evaluations in the run; 0 for none."
    )
    evaluation_questions: int = Field(
        default=256, ge=1, le=100_000, description="Questions per evaluation in the run."
    )
    seed: shared.Seed = 0
    gpus_per_node: GpusPerNode = 8
    tensor_parallel: int = Field(
        default=1, ge=1, le=64, description="GPUs that share one copy of the model for inference."
    )
    gpu_memory: float = Field(
        default=0.9, gt=0.1, le=0.98, description="Share of its GPU's memory that vLLM takes."
    )
    router_port: Port = Field(default=8000, description="Port of the router to the servers.")
    engine_port: Port = Field(default=8100, description="Port of the inference server behind it.")
    environment_port: int = Field(
        default=5000,
        ge=1024,
        le=65_534,
        description="Port of the environment's server for training; the next one is for "
        "evaluation.",
    )
    lora_rank: int = Field(
        default=0, ge=0, le=512, description="Rank of the adapter; 0 trains all weights."
    )
    lora_alpha: float = Field(default=64.0, gt=0, le=4096, description="Scale of the adapter.")

    def agent_settings(self, base: AgentSettings) -> AgentSettings:
        """Return the agent's settings: those of the base policy, with the limits set here."""
        return replace(base, max_turns=self.max_turns, max_tokens=self.reply_tokens)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
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

    train_gpus: TrainGpus = 4
    inference_gpus: InferenceGpus = 4

    @model_validator(mode="after")
    def _fits_machine(self) -> Self:
        total = self.train_gpus + self.inference_gpus
        if total > self.gpus_per_node:
            raise ValueError(
                f"train_gpus and inference_gpus are {total} together, "
                f"gpus_per_node is {self.gpus_per_node}"
            )
        _must_divide(self.inference_gpus, "inference_gpus", self.tensor_parallel)
        return self


class TwoGpusLora(SingleNode):
    """One machine with 2 GPUs of 80 GB: an adapter instead of all weights."""

    prompts_per_step: shared.PromptsPerStep = 16
    learning_rate: shared.LearningRate = 1e-5
    sequence_tokens: SequenceTokens = 8192
    rollouts_in_flight: RolloutsInFlight = 128
    environment_workers: Workers = 4
    gpus_per_node: GpusPerNode = 2
    train_gpus: TrainGpus = 1
    inference_gpus: InferenceGpus = 1
    lora_rank: int = Field(default=32, ge=1, le=512, description="Rank of the adapter.")


class SlurmNodes(PrimeRlSettings):
    """Several equal machines that Slurm allocates; they share a file system."""

    train_nodes: int = Field(default=2, ge=1, le=256, description="Machines that train.")
    inference_nodes: int = Field(
        default=2, ge=1, le=256, description="Machines that draw rollouts."
    )
    partition: str = Field(default="cluster", min_length=1, description="Slurm's partition.")
    account: str = Field(default="", description="Slurm's account; empty for the user's default.")
    time_limit: str = Field(
        default="24:00:00",
        pattern=r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$",
        description="Time limit of the job: hours:minutes:seconds, or days-hours:minutes:seconds.",
    )
    poll_seconds: float = Field(
        default=10.0, ge=0.2, le=600, description="Seconds between status checks of the job."
    )
    failure_wait_seconds: int = Field(
        default=300,
        ge=0,
        le=3600,
        description="Seconds that a failed job keeps its machines, to finish a checkpoint.",
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
"""Settings of how a run is carried out: changing them does not make it another run."""

PRIME_RL: dict[str, type[PrimeRlSettings]] = {
    "prime_rl": SingleNode,
    "prime_rl_lora": TwoGpusLora,
    "prime_rl_slurm": SlurmNodes,
}
"""The settings of each backend."""


def read_settings(backend: str, values: Mapping[str, Any]) -> PrimeRlSettings:
    """Return a backend's settings with these values changed.

    Raises Text2SqlError, in one sentence, for an unknown backend or name, a value out of bounds,
    or values that contradict each other.
    """
    if backend not in PRIME_RL:
        raise Text2SqlError(f"There is no backend {backend!r}: use {', '.join(PRIME_RL)}.")
    return shared.read_values(PRIME_RL[backend], values, "The settings of the training run")


def _must_divide(gpus: int, name: str, tensor_parallel: int) -> None:
    if gpus % tensor_parallel:
        raise ValueError(
            f"{name} ({gpus}) is not a multiple of tensor_parallel ({tensor_parallel})"
        )


class LaunchPlan(shared.Settings):
    """One run; all paths are absolute.

    ``settings`` are those of the ``backend``, ``agent`` has the base policy's agent settings.
    ``policy_dir`` is the base model, a directory or a hub name. Without the two evaluation files
    the run is not evaluated while it trains. Only a Slurm job needs ``package`` (the checkout or
    wheel that the environment is installed from) and ``prime_rl_dir``. ``code`` is that of
    ``checkout.package()`` where the run was planned: a launcher with other code, in an older image,
    refuses to run. ``fresh`` discards an earlier attempt in ``output_dir``; otherwise the run
    resumes from its last complete checkpoint.
    """

    backend: str
    settings: dict[str, Any]
    agent: dict[str, Any]
    policy_dir: str
    prompts: Path
    golds: Path
    output_dir: Path
    evaluation_prompts: Path | None = None
    evaluation_golds: Path | None = None
    package: Path | None = None
    prime_rl_dir: Path | None = Field(default_factory=prime_rl_directory)
    code: str = ""
    fresh: bool = False
    name: str = "run"
    """The name of the run's directory: prime-rl resumes a run by its name."""

    @property
    def run_dir(self) -> Path:
        """The directory that prime-rl writes everything into."""
        return self.output_dir / self.name

    @property
    def policy(self) -> Path:
        """Where the trained policy is written."""
        return self.output_dir / "policy"
