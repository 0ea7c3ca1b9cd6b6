"""What a person sets about a training run: the form of the launchpad."""

from __future__ import annotations

from pydantic import Field

from assets.training.trainers import TrainerConfig, TrlConfig
from resources.forms import Form
from text2sql.training.start import FROM_BASE

_PATIENCE = {"trl": 900.0}


class GrpoConfig(Form):
    """One training run."""

    trainer: TrainerConfig = Field(
        default_factory=TrlConfig,
        discriminator="backend",
        description="Which trainer runs, and with what: trl, prime_rl, prime_rl_lora or "
        "prime_rl_slurm.",
    )
    start_from: str = Field(
        default=FROM_BASE,
        description="The policy to start from: base, champion, or a training run's name. Give "
        "base_rollouts the same, so that the prompts are filtered with it.",
    )
    stall_seconds: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        description="Without progress for so long, it is ended. Left out: 900 with trl and 3600 "
        "with prime-rl, as a large model takes long to load and to draw its first rollouts.",
    )

    def patience(self) -> float:
        """Return after how many seconds without progress the training is ended."""
        return self.stall_seconds or _PATIENCE.get(self.trainer.backend, 3600.0)
