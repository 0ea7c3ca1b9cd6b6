"""Numbers as arguments and options: what is none, or out of bounds, is told in words."""

from __future__ import annotations

import math
from typing import Any

import click

Parameter = click.Parameter | None
Context = click.Context | None


class WholeNumber(click.types.IntParamType):
    """A whole number; the command checks its bounds itself."""

    def convert(self, value: Any, param: Parameter, ctx: Context) -> int:
        """Read the number."""
        try:
            return int(value)
        except ValueError:
            self.fail(_problem("a whole number", self, value), param, ctx)


class WholeNumberIn(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: Parameter, ctx: Context) -> int:
        """Read the number."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(_problem("a whole number", self, value), param, ctx)


class Number(click.types.FloatParamType):
    """A finite number; the command checks its bounds itself."""

    def convert(self, value: Any, param: Parameter, ctx: Context) -> float:
        """Read the number."""
        try:
            return _finite(float(value))
        except ValueError:
            self.fail(_problem("a number", self, value), param, ctx)


class NumberIn(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: Parameter, ctx: Context) -> float:
        """Read the number."""
        try:
            return _finite(float(super().convert(value, param, ctx)))
        except (click.BadParameter, ValueError):
            self.fail(_problem("a number", self, value), param, ctx)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(number)
    return number


def _problem(what: str, kind: click.ParamType, value: Any) -> str:
    return f"give {what}{_bounds(kind)}, not {value!r}."


def _bounds(kind: click.ParamType) -> str:
    """Say in words which numbers are taken: ``from 1 to 64``, ``above 0``."""
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return ""
    if kind.max is None:
        return f" above {kind.min}" if kind.min_open else f" of {kind.min} or more"
    if kind.min_open:
        return f" above {kind.min}, {'below' if kind.max_open else 'at most'} {kind.max}"
    return f" from {kind.min} to {kind.max}"
