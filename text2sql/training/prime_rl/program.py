"""prime-rl's checkout, its program ``rl``, and the environment that it starts in."""

from __future__ import annotations

import os
from pathlib import Path

from text2sql.errors import Text2SqlError

PRIME_RL_VARIABLE = "PRIME_RL_DIR"
"""The environment variable that names prime-rl's checkout."""


def prime_rl_directory() -> Path | None:
    """Return prime-rl's checkout, None where the environment names none."""
    value = os.environ.get(PRIME_RL_VARIABLE, "")
    return Path(value).expanduser().absolute() if value else None


def rl_program(directory: Path) -> Path:
    """Return prime-rl's ``rl``; raises Text2SqlError where it is not installed."""
    program = directory / ".venv" / "bin" / "rl"
    if not os.access(program, os.X_OK):
        raise Text2SqlError(
            f"{PRIME_RL_VARIABLE} is {directory}, where there is no .venv/bin/rl: run uv sync "
            "there, or name prime-rl's checkout."
        )
    return program


def rl_environment(directory: Path) -> dict[str, str]:
    """Return the environment of prime-rl's programs: they start each other by bare name.

    The base model is a directory, so that nothing needs the hub: it is not asked.
    """
    path = f"{directory / '.venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {"HF_HUB_OFFLINE": "1"} | dict(os.environ) | {"PATH": path}
