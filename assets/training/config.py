"""The launchpad's forms of the difficulty filter and of a training run."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from assets.rollouts.sampling import SamplingConfig
from resources.forms import Form
from text2sql.training.difficulty import Bounds
from text2sql.training.prime_rl.settings import SingleNode, SlurmNodes, TwoGpusLora
from text2sql.training.runs import FROM_BASE
from text2sql.training.trl.config import TrlSettings

_FRESH = Field(
    default=False,
    description="Discard what an earlier attempt left. Otherwise the run resumes from its last "
    "complete checkpoint, also with other steps or another learning rate.",
)


class BaseRolloutsConfig(SamplingConfig):
    """How the policy that training starts from is sampled on the training questions."""

    max_questions: int = Field(
        default=0, ge=0, description="Only the first usable questions, this many; 0 for all."
    )
    start_from: str = Field(
        default=FROM_BASE,
        description="The policy whose rollouts rate the questions: base, champion, or a training "
        "run's name. Use the same as for grpo_policy.",
    )


class TrainingPromptsConfig(Form):
    """Which questions are kept for training."""

    least_solved: int = Field(
        default=1, ge=1, le=128, description="Keep questions that are solved at least so often."
    )
    most_solved: int = Field(
        default=0,
        ge=0,
        le=128,
        description="Keep questions that are solved at most so often; 0 for no limit. A question "
        "that is always solved is never kept.",
    )
    minimum_valid: int = Field(
        default=6, ge=2, le=128, description="A question with fewer valid rollouts is unknown."
    )
    minimum_prompts: int = Field(
        default=16, ge=1, description="The check fails if fewer questions are kept."
    )
    minimum_strength: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Keep questions of at least this reward strength (docs/reward-strength.md); "
        "0 keeps all. With a minimum, questions without a score are dropped.",
    )
    seed: int = Field(default=1, ge=0, description="Seed of the order of the prompts.")

    def bounds(self) -> Bounds:
        """Return the bounds of the filter."""
        return Bounds(self.least_solved, self.most_solved or None, self.minimum_valid)


class TrlConfig(Form, TrlSettings):
    """GRPO with TRL in one process: a small policy on a CPU or on one GPU."""

    backend: Literal["trl"] = "trl"


class PrimeRlConfig(Form, SingleNode):
    """GRPO with prime-rl on the GPUs of one machine, all weights: 8 GPUs for a 9B model."""

    backend: Literal["prime_rl"] = "prime_rl"
    fresh: bool = _FRESH


class PrimeRlLoraConfig(Form, TwoGpusLora):
    """GRPO with prime-rl on two GPUs of 80 GB: an adapter instead of all weights."""

    backend: Literal["prime_rl_lora"] = "prime_rl_lora"
    fresh: bool = _FRESH


class PrimeRlSlurmConfig(Form, SlurmNodes):
    """GRPO with prime-rl on several machines of a Slurm cluster, all weights."""

    backend: Literal["prime_rl_slurm"] = "prime_rl_slurm"
    fresh: bool = _FRESH


TrainerConfig = TrlConfig | PrimeRlConfig | PrimeRlLoraConfig | PrimeRlSlurmConfig
BACKENDS: dict[str, type[TrainerConfig]] = {
    kind.model_fields["backend"].default: kind for kind in get_args(TrainerConfig)
}


class GrpoConfig(Form):
    """One training run."""

    trainer: TrainerConfig = Field(
        default_factory=TrlConfig,
        discriminator="backend",
        description="The trainer and its settings: trl, prime_rl, prime_rl_lora or prime_rl_slurm.",
    )
    start_from: str = Field(
        default=FROM_BASE,
        description="The policy to start from: base, champion, or a training run's name. Set "
        "base_rollouts to the same, so that the prompts are filtered with it.",
    )
    stall_seconds: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        description="End the training after this time without progress. Default: 900 with trl and "
        "3600 with prime-rl, since a large model takes long to load and to draw its first "
        "rollouts.",
    )

    def stall_limit(self) -> float:
        """Return after how many seconds without progress the training is ended."""
        return self.stall_seconds or (900.0 if self.trainer.backend == "trl" else 3600.0)
