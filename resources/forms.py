"""Forms of the launchpad whose help says what each field accepts."""

from __future__ import annotations

from typing import Any

import annotated_types
import dagster as dg
from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.bounds import Bounded


class RefusedValue(dg.Failure, Text2SqlError):
    """A form has a value that it does not accept; Dagster shows the sentence as it is."""


class Form(dg.Config):
    """Settings whose bounds are part of their descriptions, and refused in a sentence.

    Dagster shows a field's description while one types, but not the bounds that pydantic
    enforces once the step has started.
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise RefusedValue(f"{refused_value(error, type(self))}.") from error

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Complete the descriptions of a new form."""
        super().__pydantic_init_subclass__(**options)
        for field in cls.model_fields.values():
            bounds = f"({accepted(field)})"
            if bounds != "()" and bounds not in (field.description or ""):
                field.description = f"{field.description or ''} {bounds}".strip()


def bounded(setting: Bounded) -> Any:
    """Return a form's field for a bounded number."""
    return Field(
        default=setting.default,
        ge=setting.least,
        gt=setting.above,
        le=setting.most,
        description=setting.description,
    )


def config_of_step(step: str, form: type[Form]) -> dg.ConfigMapping:
    """Let a graph asset's config be that of one of its steps, which refuses what is out of bounds.

    Read here, a refused value would be told as a fault of the mapping, before the run begins.
    """
    return dg.ConfigMapping(
        config_fn=lambda values: {step: {"config": values}},
        config_schema=form.to_config_schema(),
    )


def accepted(field: FieldInfo) -> str:
    """Say what numbers a field accepts; empty where it has no bounds."""
    words = {
        annotated_types.Ge: "at least {0.ge:,}",
        annotated_types.Gt: "more than {0.gt:,}",
        annotated_types.Le: "at most {0.le:,}",
        annotated_types.Lt: "less than {0.lt:,}",
    }
    found = [(words[type(bound)], bound) for bound in field.metadata if type(bound) in words]
    return ", ".join(text.format(bound) for text, bound in found)


def refused_value(error: ValidationError, form: type[BaseModel]) -> str:
    """Say which value of a form is refused, and why; without an end."""
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"]))
    reason = first["msg"].removeprefix("Value error, ")
    field = form.model_fields.get(name)
    if first["type"] == "string_pattern_mismatch" and field is not None:
        reason = (field.description or reason).rstrip(".")
    return f"{name} is {first['input']!r}: {reason}" if name else reason
