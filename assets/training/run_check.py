"""A run config as a whole, before its first rollout: bounds, and values that contradict each other.

Dagster checks names and types when a run is launched, but the bounds of a stage only when that
stage starts, which for the evaluation is after the training.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from assets.evaluation.config import DevRolloutsConfig, ScoresConfig
from assets.training.config import (
    BaseRolloutsConfig,
    GrpoConfig,
    TrainerConfig,
    TrainingPromptsConfig,
    TrlConfig,
)
from resources.forms import Form, InvalidValue
from resources.step_pods import EXECUTOR_VARIABLE
from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.training.difficulty import require_prompts
from text2sql.training.prime_rl.preflight import require_installed
from text2sql.training.runs import training_record

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
    ops = _mapping(config.get("ops"))
    forms = {
        name: _filled(name, form, _mapping(_mapping(ops.get(name)).get("config")))
        for name, form in FORMS.items()
        if name in assets
    }
    drawn, kept = forms.get("base_rollouts"), forms.get("training_prompts")
    bounds = kept.bounds() if isinstance(kept, TrainingPromptsConfig) else None
    if isinstance(drawn, BaseRolloutsConfig):
        if bounds:
            bounds.check_samples(drawn.samples)
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
    if isinstance(kept, TrainingPromptsConfig):
        needed = kept.minimum_prompts
        require_prompts("training_prompts", "minimum_prompts", needed, count, reason)
    trainer = grpo.trainer
    setting = "groups_per_step" if isinstance(trainer, TrlConfig) else "prompts_per_step"
    require_prompts("grpo_policy", setting, getattr(trainer, setting), count, reason)


def _mapping(values: Any) -> Mapping[str, Any]:
    """Return a part of a config, empty if it is not a mapping: Dagster rejects that itself."""
    return {str(n): value for n, value in values.items()} if isinstance(values, Mapping) else {}


def _filled(asset: str, form: type[Form], values: Mapping[str, Any]) -> Form:
    given = resolved(values)
    try:
        return form(**given)
    except InvalidValue as error:
        raise Text2SqlError(f"{asset}: {error}") from error


def resolved(value: Any) -> Any:
    """Return a value with its environment variables, ``{env: NAME}``, replaced as Dagster does."""
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"env"} or not isinstance(name := value["env"], str):
        return {key: resolved(part) for key, part in value.items()}
    if name not in os.environ:
        raise Text2SqlError(
            f"The run config uses the environment variable {name}, which is not set."
        )
    return os.environ[name]


def require_trainable(
    root: Path, run: str, config: Mapping[str, Any], trainer: TrainerConfig
) -> None:
    """Raise Text2SqlError if this machine lacks what training with prime-rl needs.

    Called before the filter, which may sample for hours. Checks nothing for a run that was trained
    before, nor if training starts in a pod of the cluster.
    """
    settings = _mapping(_mapping(_mapping(config.get("resources")).get("trainer")).get("config"))
    in_pod = "kubernetes" in (settings.get("where"), os.environ.get(EXECUTOR_VARIABLE))
    if not (isinstance(trainer, TrlConfig) or in_pod or training_record(root, run)):
        require_installed(trainer)
