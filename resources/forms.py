"""Forms of the launchpad whose help says what each field accepts."""

from __future__ import annotations

from typing import Any

import annotated_types
import dagster as dg
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.bounds import Bounded
from text2sql.training.settings import invalid_value

TEMPERATURE = Bounded(1.0, "Sampling temperature.", most=2, above=0)
MAX_TOKENS = Bounded(2048, "Tokens in one reply.", 16, 131_072)
TOP_P = Bounded(1.0, "top_p (nucleus) sampling threshold.", most=1, above=0)


class InvalidValue(dg.Failure, Text2SqlError):
    """A form has an invalid value; Dagster shows the sentence as it is."""


class Form(dg.Config):
    """Settings that add their bounds to their descriptions, and reject a value in a sentence.

    Dagster shows a field's description while one types, but not the bounds that pydantic enforces
    once the step has started.
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidValue(f"{invalid_value(error, type(self))}.") from error

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
    """Make the config of one step that of its graph asset; the step checks the bounds.

    Checked here, Dagster would report an invalid value as a bug in the mapping.
    """
    return dg.ConfigMapping(
        config_fn=lambda values: {step: {"config": values}}, config_schema=form.to_config_schema()
    )


def accepted(field: FieldInfo) -> str:
    """Return what numbers a field accepts, in words; empty without bounds."""
    words = {
        annotated_types.Ge: "at least {0.ge:,}",
        annotated_types.Gt: "more than {0.gt:,}",
        annotated_types.Le: "at most {0.le:,}",
        annotated_types.Lt: "less than {0.lt:,}",
    }
    found = [(words[type(bound)], bound) for bound in field.metadata if type(bound) in words]
    return ", ".join(text.format(bound) for text, bound in found)
