"""A run config as a whole, before its first rollout: bounds, and what contradicts each other.

Dagster looks at names and types when a run is launched, and at the bounds of a stage only when
that stage starts, which for the evaluation is after the training.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from assets.evaluation.config import DevRolloutsConfig, ScoresConfig
from assets.training.config import GrpoConfig
from assets.training.difficulty_config import BaseRolloutsConfig, TrainingPromptsConfig
from assets.training.trainers import TrlConfig
from resources.forms import Form, RefusedValue
from text2sql.common.counting import counted
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
    ops = _mapping(config.get("ops"))
    forms = {
        name: _filled(name, form, _mapping(_mapping(ops.get(name)).get("config")))
        for name, form in FORMS.items()
        if name in assets
    }
    _check_filter(forms.get("base_rollouts"), forms.get("training_prompts"))
    drawn = forms.get("base_rollouts")
    if isinstance(drawn, BaseRolloutsConfig) and drawn.max_questions:
        asks = counted(drawn.max_questions, "question")
        asked = f"base_rollouts asks only {asks} (max_questions)"
        _require_enough(forms, drawn.max_questions, asked)
    return forms


def require_questions(forms: Mapping[str, Form], count: int) -> None:
    """Refuse a training that needs more prompts than there are questions to filter.

    ``forms`` are those of the assets that the run makes. Raises Text2SqlError.
    """
    _require_enough(forms, count, f"only {counted(count, 'training question')} can be asked")


def _mapping(values: Any) -> Mapping[str, Any]:
    """Return a part of a config; of what is no mapping, which Dagster refuses, nothing is read."""
    return {str(n): value for n, value in values.items()} if isinstance(values, Mapping) else {}


def _filled(asset: str, form: type[Form], values: Mapping[str, Any]) -> Form:
    given = resolved(values)
    try:
        return form(**given)
    except RefusedValue as error:
        raise Text2SqlError(f"{asset}: {error}") from error


def resolved(value: Any) -> Any:
    """Return a value with what environment variables hold, ``{env: NAME}``, as Dagster does."""
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"env"} or not isinstance(name := value["env"], str):
        return {key: resolved(part) for key, part in value.items()}
    if name not in os.environ:
        raise Text2SqlError(f"The run config names the environment variable {name}: it is not set.")
    return os.environ[name]


def _check_filter(drawn: Form | None, kept: Form | None) -> None:
    """Refuse a filter that would keep nothing of what is drawn."""
    if not isinstance(kept, TrainingPromptsConfig):
        return
    bounds = kept.bounds()  # contradictions of its own
    if not isinstance(drawn, BaseRolloutsConfig):
        return
    if bounds.minimum_valid > drawn.samples:
        raise Text2SqlError(
            f"training_prompts asks for {counted(bounds.minimum_valid, 'valid rollout')} of a "
            f"question (minimum_valid), and base_rollouts draws {drawn.samples} (samples): every "
            "question would be unknown; set minimum_valid lower or samples higher."
        )
    if bounds.least >= drawn.samples:
        raise Text2SqlError(
            f"training_prompts keeps questions that are solved {counted(bounds.least, 'time')} and "
            "more, but not always (least_solved), and base_rollouts draws "
            f"{drawn.samples} (samples): there are none; set least_solved lower or samples higher."
        )


def _require_enough(forms: Mapping[str, Form], count: int, asked: str) -> None:
    for asset, setting, needed in _needed(forms):
        if count < needed:
            raise Text2SqlError(
                f"{asset} needs {counted(needed, 'prompt')} ({setting}), and {asked}: set "
                f"{setting} lower, or ask more."
            )


def _needed(forms: Mapping[str, Form]) -> Iterator[tuple[str, str, int]]:
    """Yield the assets that need prompts, the setting that says so, and how many."""
    kept, grpo = forms.get("training_prompts"), forms.get("grpo_policy")
    if not isinstance(grpo, GrpoConfig):
        return
    if isinstance(kept, TrainingPromptsConfig):
        yield "training_prompts", "minimum_prompts", kept.minimum_prompts
    if isinstance(trainer := grpo.trainer, TrlConfig):
        yield "grpo_policy", "groups_per_step", trainer.groups_per_step
    else:
        yield "grpo_policy", "prompts_per_step", trainer.prompts_per_step
