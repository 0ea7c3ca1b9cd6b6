"""Number types for options: click's own, with clearer messages and without NaN and infinity."""

from __future__ import annotations

import math
from typing import Any

import click


class IntegerRange(click.IntRange):
    """An integer within bounds."""

    name = "integer"  # click calls text "not a valid integer range"


class NumberRange(click.FloatRange):
    """A finite number within bounds."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number; click accepts NaN, which is within any bounds."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number
