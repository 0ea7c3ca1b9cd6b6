"""Forms of the launchpad whose help says what each field accepts."""

from __future__ import annotations

from typing import Any

import annotated_types
import dagster as dg
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo


class Form(dg.Config):
    """Settings whose bounds are part of their descriptions.

    Dagster shows a field's description while one types, but not the bounds that pydantic
    enforces once the step has started.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Complete the descriptions of a new form."""
        super().__pydantic_init_subclass__(**options)
        for field in cls.model_fields.values():
            bounds = f"({accepted(field)})"
            if bounds != "()" and bounds not in (field.description or ""):
                field.description = f"{field.description or ''} {bounds}".strip()


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
