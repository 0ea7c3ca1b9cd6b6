"""prime-rl's checkout: its programs, its commit, and the copy of this package installed there."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import text2sql
from text2sql.errors import Text2SqlError

PRIME_RL_VARIABLE = "PRIME_RL_DIR"
"""The environment variable that names prime-rl's checkout."""

_DESCRIBE_PACKAGE = """
import json, text2sql_env
from text2sql.training.prime_rl import checkout
print(json.dumps(checkout.package()))
"""
_REINSTALL = (
    "run uv pip install --no-deps --reinstall with this project's checkout; each uv sync there "
    "removes it again"
)


def prime_rl_directory() -> Path | None:
    """Return prime-rl's checkout, None if the environment does not name one."""
    value = os.environ.get(PRIME_RL_VARIABLE, "")
    return Path(value).expanduser().absolute() if value else None


def require_prime_rl() -> Path:
    """Return prime-rl's checkout; raises Text2SqlError if it is unknown or has no ``rl``."""
    directory = prime_rl_directory()
    if directory is None:
        raise Text2SqlError(
            f"{PRIME_RL_VARIABLE} is not set: set it to the folder of prime-rl's checkout."
        )
    rl_program(directory)
    return directory


def rl_program(directory: Path) -> Path:
    """Return prime-rl's ``rl``; raises Text2SqlError if it is not installed."""
    program = directory / ".venv" / "bin" / "rl"
    if not os.access(program, os.X_OK):
        raise Text2SqlError(
            f"{PRIME_RL_VARIABLE} is {directory}, which has no .venv/bin/rl: run uv sync there, "
            "or name prime-rl's checkout."
        )
    return program


def rl_environment(directory: Path) -> dict[str, str]:
    """Return the environment variables for prime-rl's programs.

    They start each other by bare name. The base model is a directory, so the hub is never asked.
    """
    path = f"{directory / '.venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {"HF_HUB_OFFLINE": "1"} | dict(os.environ) | {"PATH": path}


def prime_rl_commit(directory: Path) -> str:
    """Return the commit of prime-rl's checkout, ``unknown`` if nothing names it.

    An image has no ``.git``; its file ``COMMIT`` has the commit (deploy/kubernetes/training).
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), "rev-parse", "--show-toplevel", "HEAD"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        top, _, commit = done.stdout.strip().partition("\n")
        # git also answers for a folder inside of another repository.
        if done.returncode == 0 and Path(top) == directory.resolve():
            return commit
    except (OSError, subprocess.TimeoutExpired):
        pass  # without git the file is all there is
    file = directory / "COMMIT"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else "unknown"


def package() -> dict[str, str]:
    """Return this package's version, its folder, and 16 hex digits of its source's SHA-256."""
    folder = Path(text2sql.__file__).parent
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        total.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode())
        total.update(file.read_bytes())
    return {"version": text2sql.__version__, "folder": str(folder), "code": total.hexdigest()[:16]}


def check_environment(directory: Path) -> dict[str, str]:
    """Import the environment as prime-rl's workers will; return its ``package()``.

    Raises Text2SqlError if it cannot be imported, or has other code than this process: the judge
    in training must be the one that filters and evaluates.
    """
    python = str(directory / ".venv" / "bin" / "python")
    try:
        done = subprocess.run(
            [python, "-P", "-c", _DESCRIBE_PACKAGE],
            cwd=directory,
            env=rl_environment(directory),
            capture_output=True,
            text=True,
            timeout=300.0,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Text2SqlError(f"prime-rl's Python {python} does not run: {error}.") from error
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise Text2SqlError(
            f"prime-rl's Python cannot import text2sql_env ({last}): in {directory}, {_REINSTALL}."
        )
    found: dict[str, str] = json.loads(done.stdout.strip().rpartition("\n")[2])
    here = package()
    if found.get("code") != here["code"]:
        raise Text2SqlError(
            f"prime-rl's environment has other code of text2sql ({found.get('code')}, in "
            f"{found.get('folder')}) than this project ({here['code']}): in {directory}, "
            f"{_REINSTALL}."
        )
    return found
