"""What a check found: one line for people, one object for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from text2sql.errors import Text2SqlError


class State(StrEnum):
    """Whether a thing works."""

    OK = "ok"
    """It works."""
    WARN = "warn"
    """It is missing or limited, and only parts of the project need it."""
    FAIL = "fail"
    """It is broken, or nothing works without it."""


@dataclass(frozen=True)
class Finding:
    """What was checked, its state, what was found, and how to fix it.

    ``fix`` is empty where nothing is wrong, or ``found`` says what to do.
    """

    check: str
    state: State
    found: str
    fix: str = ""


Check = Callable[[], Iterable[Finding]]
"""Checks one thing; an exception counts as a failure of that thing."""


def examine(name: str, check: Check) -> list[Finding]:
    """Run a check; if it fails, the others still run."""
    try:
        return list(check())
    except Text2SqlError as error:
        return [Finding(name, State.FAIL, str(error))]
    except Exception as error:  # noqa: BLE001 - a check that breaks is itself a finding
        found = f"the check failed: {type(error).__name__}: {error}"
        return [Finding(name, State.FAIL, found, "report this with the whole output")]
