"""The launchpad's forms of filter and training, and the check of a whole run config.

Dagster checks names and types when a run is launched, but the bounds of a stage only when that
stage starts, which for the evaluation is after the training. So a run config is checked as a whole
before its first rollout.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from assets.evaluation.config import DevRolloutsConfig, ScoresConfig
from assets.rollouts.sampling import SamplingConfig
from resources.forms import Form, InvalidValue
from resources.step_pods import EXECUTOR_VARIABLE
from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.training.difficulty import Bounds
from text2sql.training.prime_rl.preflight import require_installed
from text2sql.training.prime_rl.settings import SingleNode, SlurmNodes, TwoGpusLora
from text2sql.training.runs import FROM_BASE, training_record
from text2sql.training.settings import config_part, resolved
from text2sql.training.trl.settings import TrlSettings

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


class TrainingPromptsConfig(Form, Bounds):
    """Which questions are kept for training."""

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


FORMS: dict[str, type[Form]] = {
    "base_rollouts": BaseRolloutsConfig,
    "training_prompts": TrainingPromptsConfig,
    "grpo_policy": GrpoConfig,
    "dev_rollouts": DevRolloutsConfig,
    "dev_scores": ScoresConfig,
}
"""The forms of the assets from the filter on, by the assets' names."""


def read_forms(config: Mapping[str, Any], assets: Collection[str] = FORMS) -> dict[str, Form]:
    """Return the forms of those ``assets`` that a run makes, filled in from its config.

    Raises Text2SqlError for a value out of bounds, and for two that contradict each other.
    """
    forms: dict[str, Form] = {}
    for name in filter(assets.__contains__, FORMS):
        try:
            forms[name] = FORMS[name](**resolved(config_part(config, "ops", name, "config")))
        except InvalidValue as error:
            raise Text2SqlError(f"{name}: {error}") from error
    drawn, kept = forms.get("base_rollouts"), forms.get("training_prompts")
    if isinstance(drawn, BaseRolloutsConfig):
        if isinstance(kept, TrainingPromptsConfig):
            kept.check_samples(drawn.samples)
        if drawn.max_questions:
            asked = counted(drawn.max_questions, "question")
            reason = f"base_rollouts samples only {asked} (max_questions)"
            _require_enough(forms, drawn.max_questions, reason)
    return forms


def require_questions(forms: Mapping[str, Form], count: int) -> None:
    """Raise Text2SqlError if the training needs more prompts than there are questions to filter.

    ``forms`` are those of the assets that the run makes.
    """
    there_are = counted(count, "usable training question exists", "usable training questions exist")
    _require_enough(forms, count, f"only {there_are}")


def _require_enough(forms: Mapping[str, Form], count: int, reason: str) -> None:
    kept, grpo = forms.get("training_prompts"), forms.get("grpo_policy")
    if not isinstance(grpo, GrpoConfig):
        return
    trainer = grpo.trainer
    setting = "groups_per_step" if isinstance(trainer, TrlConfig) else "prompts_per_step"
    needs = [("grpo_policy", setting, getattr(trainer, setting))]
    if isinstance(kept, TrainingPromptsConfig):
        needs.insert(0, ("training_prompts", "minimum_prompts", kept.minimum_prompts))
    for asset, name, needed in needs:
        if count < needed:
            raise Text2SqlError(
                f"{asset} needs {counted(needed, 'prompt')} ({name}), but {reason}: set {name} "
                "lower, or sample more questions."
            )


def require_trainable(
    root: Path, run: str, config: Mapping[str, Any], trainer: TrainerConfig
) -> None:
    """Raise Text2SqlError if this machine lacks what training with prime-rl needs.

    Called before the filter, which may sample for hours. Checks nothing for a run that was trained
    before, nor if training starts in a pod of the cluster.
    """
    where = config_part(config, "resources", "trainer", "config").get("where")
    in_pod = "kubernetes" in (where, os.environ.get(EXECUTOR_VARIABLE))
    if not (isinstance(trainer, TrlConfig) or in_pod or training_record(root, run)):
        require_installed(trainer)
