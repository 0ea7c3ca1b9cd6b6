"""The settings that trainers share, each with its bounds and its description in one place.

The launchpad's forms, ``text2sql train --set`` and the reference of settings are made from the
models that use them; a model gives a setting its default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from text2sql.errors import Text2SqlError

Steps = Annotated[int, Field(ge=1, le=100_000, description="Optimizer steps.")]
PromptsPerStep = Annotated[int, Field(ge=1, le=4096, description="Prompts per step.")]
GroupSize = Annotated[int, Field(ge=2, le=128, description="Rollouts per prompt.")]
LearningRate = Annotated[
    float,
    Field(gt=0, le=1e-2, description="Learning rate. In YAML write 0.0001: 1e-4 is a text there."),
]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1, description="Seed of the order of the prompts.")]
SaveEvery = Annotated[int, Field(ge=1, le=10_000, description="Steps between checkpoints.")]


class Settings(BaseModel):
    """Settings of a trainer: unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=Settings)


def read_values(model: type[Model], values: Mapping[str, Any], what: str) -> Model:
    """Return settings with these values; raises Text2SqlError that begins with ``what``."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise Text2SqlError(f"{what}: {invalid_value(error, model)}.") from error


def invalid_value(error: ValidationError, model: type[BaseModel]) -> str:
    """Say which value of a model is invalid, and why; without a full stop."""
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"there is no setting {name}"
    if first["type"] == "missing":
        return f"{name} is missing"
    reason = first["msg"].removeprefix("Value error, ")
    field = model.model_fields.get(name)
    if first["type"] == "string_pattern_mismatch" and field is not None:
        reason = (field.description or reason).rstrip(".")
    return f"{name} is {first['input']!r}: {reason}" if name else reason


def config_part(config: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a part of a run config, empty if it is no mapping: Dagster rejects that itself."""
    part: Any = config
    for name in names:
        part = part.get(name) if isinstance(part, Mapping) else None
    return {str(n): value for n, value in part.items()} if isinstance(part, Mapping) else {}


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
