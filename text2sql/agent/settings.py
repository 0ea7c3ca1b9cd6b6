"""How an agent works: turns, budgets, mode. A policy is trained with its settings."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from text2sql.common.json_files import read_object
from text2sql.common.render import Budget
from text2sql.errors import Text2SqlError

CONFIG_NAME = "agent_config.json"
Mode = Literal["agentic", "single_turn"]
"""agentic: tools, turn by turn. single_turn: the schema in the prompt, one reply, no repair."""


@dataclass(frozen=True)
class AgentSettings:
    """The agent's limits.

    ``output_chars``, ``output_rows`` and ``cell_chars`` bound one tool result; ``sample_rows``
    is the default of the tool of that name; ``query_seconds`` is the wall clock one query may
    take; ``max_tokens`` bounds one reply. Without ``evidence`` a question's evidence is left out
    of the prompt.
    """

    mode: Mode = "agentic"
    max_turns: int = 12
    max_tokens: int = 2048
    output_chars: int = 8000
    output_rows: int = 50
    cell_chars: int = 200
    sample_rows: int = 3
    query_seconds: float = 30.0
    evidence: bool = True

    def __post_init__(self) -> None:
        """Refuse values that no agent can work with."""
        if self.mode not in ("agentic", "single_turn"):
            raise Text2SqlError(f"mode is {self.mode!r}; it must be agentic or single_turn.")
        for name, least in _LEAST.items():
            value, whole = getattr(self, name), isinstance(least, int)
            fine = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            if not fine or not least <= value < math.inf:
                kind = "a whole number, at least" if whole else "a number of at least"
                raise Text2SqlError(f"{name} is {value!r}; it must be {kind} {least}.")
        if not isinstance(self.evidence, bool):
            raise Text2SqlError(f"evidence is {self.evidence!r}; it must be true or false.")

    @property
    def budget(self) -> Budget:
        """How much one tool result may show."""
        return Budget(chars=self.output_chars, rows=self.output_rows, cell=self.cell_chars)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)

    @classmethod
    def for_policy(cls, directory: Path | str | None) -> AgentSettings:
        """Read the settings of a policy from its ``agent_config.json``; without one, the defaults.

        Raises Text2SqlError if the file is not a JSON object of settings.
        """
        path = Path(directory) / CONFIG_NAME if directory else None
        if path is None or not path.exists():
            return cls()
        values = read_object(path)
        if unknown := sorted(set(values) - {field.name for field in fields(cls)}):
            raise Text2SqlError(f"{path} has unknown settings: {', '.join(unknown)}.")
        return cls(**values)


_LEAST: dict[str, float] = {
    "max_turns": 1,
    "max_tokens": 1,
    "output_chars": 500,
    "output_rows": 1,
    "cell_chars": 10,
    "sample_rows": 1,
    "query_seconds": 0.001,
}
"""The least value of each number; it must be whole if this is."""


def trained_settings(spec: str, model: str | None = None) -> AgentSettings:
    """Return the settings stored with a policy's weights, else the defaults; see weights_folder."""
    from text2sql.policy.open import weights_folder  # HTTP clients, which most callers never need

    return AgentSettings.for_policy(weights_folder(spec, model))
