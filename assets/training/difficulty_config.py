"""What a person sets about the difficulty filter: the forms of the launchpad."""

from __future__ import annotations

from pydantic import Field

from assets.rollouts.sampling import SamplingConfig
from resources.forms import Form
from text2sql.training.difficulty import Bounds
from text2sql.training.start import FROM_BASE


class BaseRolloutsConfig(SamplingConfig):
    """How the policy that training starts from is sampled on the training questions."""

    max_questions: int = Field(
        default=0, ge=0, description="The first so many usable questions; 0 means all of them."
    )
    start_from: str = Field(
        default=FROM_BASE,
        description="Whose rollouts say how hard a question is: base, champion, or a training "
        "run's name. The same as grpo_policy starts from.",
    )


class TrainingPromptsConfig(Form):
    """What makes a question fit for training."""

    least_solved: int = Field(
        default=1, ge=1, le=128, description="Keep questions that are solved at least so often."
    )
    most_solved: int = Field(
        default=0,
        ge=0,
        le=128,
        description="And at most so often; 0 means all but always (1 to 7 of 8). "
        "A question that is always solved is never kept.",
    )
    minimum_valid: int = Field(
        default=6, ge=2, le=128, description="With fewer valid rollouts a question is unknown."
    )
    minimum_prompts: int = Field(
        default=16, ge=1, description="With fewer questions there is nothing to train on."
    )
    minimum_strength: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Keep questions of at least this reward strength (docs/reward-strength.md); "
        "0 keeps all. With a bound, questions without a score are left out.",
    )
    seed: int = Field(default=1, ge=0, description="Seed of the order of the prompts.")

    def bounds(self) -> Bounds:
        """Return the bounds of the filter."""
        return Bounds(self.least_solved, self.most_solved or None, self.minimum_valid)
