"""A run config as a whole, before its first rollout: bounds, and what contradicts each other.

Dagster looks at names and types when a run is launched, and at the bounds of a stage only when
that stage starts, which for the evaluation is after the training.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from assets.dev_config import DevRolloutsConfig
from assets.difficulty_config import BaseRolloutsConfig, TrainingPromptsConfig
from assets.evaluating import ScoresConfig
from assets.trainers import TrlConfig
from assets.training_config import GrpoConfig
from resources.forms import Form, refused_value
from text2sql.errors import Text2SqlError

FORMS: dict[str, type[Form]] = {
    "base_rollouts": BaseRolloutsConfig,
    "training_prompts": TrainingPromptsConfig,
    "grpo_policy": GrpoConfig,
    "dev_rollouts": DevRolloutsConfig,
    "dev_scores": ScoresConfig,
}
"""The forms of the assets from the filter on, by the assets' names."""


def read_forms(config: Mapping[str, Any], assets: Collection[str] = FORMS) -> dict[str, Form]:
    """Return the forms of those ``assets`` that a run makes, as its config fills them in.

    Raises Text2SqlError for a value that is out of bounds, and for two that contradict each other.
    """
    ops = config.get("ops") or {}
    forms = {
        name: _filled(name, form, (ops.get(name) or {}).get("config") or {})
        for name, form in FORMS.items()
        if name in assets
    }
    _check_filter(forms.get("base_rollouts"), forms.get("training_prompts"))
    _check_steps(forms.get("base_rollouts"), forms.get("grpo_policy"))
    return forms


def _filled(asset: str, form: type[Form], values: Mapping[str, Any]) -> Form:
    try:
        return form(**values)
    except ValidationError as error:
        raise Text2SqlError(f"{asset}: {refused_value(error, form)}.") from error


def _check_filter(drawn: Form | None, kept: Form | None) -> None:
    """Refuse a filter that would keep nothing of what is drawn."""
    if not isinstance(kept, TrainingPromptsConfig):
        return
    bounds = kept.bounds()
    if not isinstance(drawn, BaseRolloutsConfig):
        return
    if bounds.minimum_valid > drawn.samples:
        raise Text2SqlError(
            f"training_prompts asks for {bounds.minimum_valid} valid rollouts of a question "
            f"(minimum_valid), and base_rollouts draws {drawn.samples} (samples): every question "
            "would be unknown; set minimum_valid lower or samples higher."
        )
    if bounds.least >= drawn.samples:
        raise Text2SqlError(
            f"training_prompts keeps questions that are solved {bounds.least} times and more, but "
            f"not always (least_solved), and base_rollouts draws {drawn.samples} (samples): there "
            "are none; set least_solved lower or samples higher."
        )
    _require_enough(drawn, "training_prompts", "minimum_prompts", kept.minimum_prompts)


def _check_steps(drawn: Form | None, grpo: Form | None) -> None:
    """Refuse steps that need more prompts than there can be."""
    if not isinstance(drawn, BaseRolloutsConfig) or not isinstance(grpo, GrpoConfig):
        return
    trainer = grpo.trainer
    if isinstance(trainer, TrlConfig):
        _require_enough(drawn, "grpo_policy", "groups_per_step", trainer.groups_per_step)
    else:
        _require_enough(drawn, "grpo_policy", "prompts_per_step", trainer.prompts_per_step)


def _require_enough(drawn: BaseRolloutsConfig, asset: str, setting: str, needed: int) -> None:
    if drawn.max_questions and drawn.max_questions < needed:
        raise Text2SqlError(
            f"{asset} needs {needed} prompts ({setting}), and base_rollouts asks only "
            f"{drawn.max_questions} questions (max_questions): set one of them otherwise."
        )
