"""Dagster's form of the promotion gate's rules."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from text2sql.evaluation.promotion.gate import GateRules

_RULES = {rule.name: rule for rule in fields(GateRules)}


def _field(name: str) -> Any:
    """Return a form's field with the default, description and bounds of a rule."""
    return Field(default=_RULES[name].default, **_RULES[name].metadata)


class PromotionGate(dg.ConfigurableResource):
    """The limits of the promotion gate, and what makes a candidate champion."""

    significance: float = _field("significance")
    write_rate: float = _field("write_rate")
    missing: float = _field("missing")
    infrastructure: float = _field("infrastructure")
    promote: Literal["better", "not_worse"] = _field("promote")

    def rules(self) -> GateRules:
        """Return the rules that the form holds."""
        return GateRules(**{name: getattr(self, name) for name in _RULES})
