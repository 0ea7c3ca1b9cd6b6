"""What a candidate for champion must keep to."""

from __future__ import annotations

from typing import Literal

import dagster as dg
from pydantic import Field

from text2sql.evaluation.promotion.gate import GateRules

_RULES = GateRules()


class PromotionGate(dg.ConfigurableResource):
    """The bounds of the promotion gate, and what makes a candidate champion."""

    significance: float = Field(
        default=_RULES.significance,
        gt=0,
        lt=1,
        description="A difference to the base or the champion with a smaller p-value (McNemar, "
        "exact) is beyond noise.",
    )
    write_rate: float = Field(
        default=_RULES.write_rate,
        ge=0,
        le=1,
        description="Share of rollouts that may try to write.",
    )
    missing: float = Field(
        default=_RULES.missing,
        ge=0,
        le=1,
        description="Share of dev questions that may lack a valid result.",
    )
    infrastructure: float = Field(
        default=_RULES.infrastructure,
        ge=0,
        le=1,
        description="Share of rollouts that servers and workers may have spoilt.",
    )
    promote: Literal["better", "not_worse"] = Field(
        default=_RULES.promote,
        description="'better': only a candidate that is better than the champion beyond noise "
        "takes over; 'not_worse': one that passes the gate does.",
    )

    def rules(self) -> GateRules:
        """Return the library's form of these bounds."""
        return GateRules(
            self.significance, self.write_rate, self.missing, self.infrastructure, self.promote
        )
