"""What a check found: one line for people, one object for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from text2sql.errors import Text2SqlError


class State(StrEnum):
    """How a thing is."""

    OK = "ok"
    """It works."""
    WARN = "warn"
    """It is absent or limited, and only some of the project needs it."""
    FAIL = "fail"
    """It is broken, or nothing works without it."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, what was found, and how to mend that.

    ``mend`` is empty where nothing needs mending, or ``found`` says how.
    """

    check: str
    state: State
    found: str
    mend: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the finding as plain JSON values."""
        return asdict(self) | {"state": self.state.value}


Check = Callable[[], Iterable[Finding]]
"""Looks at one thing; what it raises is told as a failure of that thing."""


def examine(name: str, check: Check) -> list[Finding]:
    """Run a check, of which one failing must not hide the others."""
    try:
        return list(check())
    except Text2SqlError as error:
        return [Finding(name, State.FAIL, str(error))]
    except Exception as error:  # noqa: BLE001 - a check that breaks is itself a finding
        found = f"the check failed: {type(error).__name__}: {error}"
        return [Finding(name, State.FAIL, found, "report this with the whole output")]
