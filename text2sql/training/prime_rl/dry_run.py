"""Asking prime-rl itself whether it takes a configuration; needs no GPU."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.schema import RlConfig
from text2sql.training.prime_rl.toml import write_toml

PRIME_RL_VARIABLE = "PRIME_RL_DIR"
"""The environment variable that names prime-rl's checkout."""

_SECONDS = 600.0
_SHOWN_CHARS = 4000
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


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


def dry_run(config: RlConfig, directory: Path) -> str:
    """Have prime-rl check a configuration and return what it printed.

    It runs in an output directory of its own: a dry run writes there, and cleans up first.
    Raises Text2SqlError with prime-rl's own words where it refuses.
    """
    with tempfile.TemporaryDirectory(prefix="text2sql-dry-run-") as folder:
        file = Path(folder) / "rl.toml"
        write_toml(config.model_copy(update={"output_dir": f"{folder}/runs"}), file)
        status, output = _run([str(rl_program(directory)), "@", str(file), "--dry-run"], directory)
    if status != 0:
        raise Text2SqlError(f"prime-rl refuses the configuration (status {status}):\n{output}")
    return output


def _run(command: list[str], directory: Path) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=rl_environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Text2SqlError(f"prime-rl's dry run took longer than {_SECONDS:g} s.") from error
    except OSError as error:
        raise Text2SqlError(f"prime-rl's dry run cannot be started: {error}.") from error
    text = _COLORS.sub("", done.stdout.decode("utf-8", errors="replace")).strip()
    return done.returncode, text[-_SHOWN_CHARS:]
