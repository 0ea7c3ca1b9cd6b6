"""Options that several commands share, and their types: paths, days and numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

# readable=False: whoever opens the file raises an error that also says what the file is for.
FILE = click.Path(path_type=Path, readable=False)
FOLDER = click.Path(path_type=Path, readable=False, file_okay=False)
STDOUT = Path("-")
json_flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
json_lines_flag = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")


class IntegerRange(click.IntRange):
    """An integer within bounds."""

    name = "integer"  # click calls text "not a valid integer range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number; click would name the bounds in symbols."""
        try:
            number = int(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a valid integer.", param, ctx)
        if problem := _outside(number, self):
            self.fail(problem, param, ctx)
        return number


class NumberRange(click.FloatRange):
    """A finite number within bounds."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number; click accepts NaN, which is within any bounds."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        if problem := _outside(number, self):
            self.fail(problem, param, ctx)
        return number


def _outside(number: float, bounds: click.IntRange | click.FloatRange) -> str:
    """Return a sentence if a number is outside its bounds."""
    low, high, sides = bounds.min, bounds.max, []
    inside = True
    if low is not None:
        inside = number > low or (number == low and not bounds.min_open)
        sides.append(f"more than {low:g}" if bounds.min_open else f"at least {low:g}")
    if high is not None:
        inside = inside and (number < high or (number == high and not bounds.max_open))
        sides.append(f"less than {high:g}" if bounds.max_open else f"at most {high:g}")
    return "" if inside else f"it must be {' and '.join(sides)}, not {number:g}."


timeout_option = click.option(
    "--timeout", type=NumberRange(min=0, min_open=True), default=30.0, help="Seconds per query."
)


def setting_option(
    setting: dataclasses.Field[Any], kind: click.ParamType | None = None
) -> Callable[[Any], Any]:
    """Return the option of a dataclass field whose metadata has pydantic's names for bounds."""
    about = setting.metadata
    low, high = about.get("ge", about.get("gt")), about.get("le", about.get("lt"))
    if isinstance(setting.default, int):
        kind = IntegerRange(low, high)
    elif isinstance(setting.default, float):
        kind = NumberRange(low, high, min_open="gt" in about, max_open="lt" in about)
    name, text = f"--{setting.name.replace('_', '-')}", about["description"]
    return click.option(name, type=kind, default=setting.default, help=text)
