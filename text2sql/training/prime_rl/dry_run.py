"""Asking prime-rl itself whether it takes a configuration; needs no GPU."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from text2sql.common.processes import without_colors
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.program import rl_environment, rl_program
from text2sql.training.prime_rl.schema import RlConfig
from text2sql.training.prime_rl.toml import write_toml

_SECONDS = 600.0
_SHOWN_CHARS = 4000


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
    text = without_colors(done.stdout.decode("utf-8", errors="replace")).strip()
    return done.returncode, text[-_SHOWN_CHARS:]
