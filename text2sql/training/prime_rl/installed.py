"""What is installed where prime-rl runs: its commit, and the environment that it trains on."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import text2sql
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.program import rl_environment

_IMPORT_SECONDS = 300.0
_PROGRAM = """
import json, text2sql_env
from text2sql.training.prime_rl import installed
print(json.dumps(installed.package()))
"""
_AGAIN = (
    "run uv pip install --no-deps --reinstall with this project's checkout; each uv sync there "
    "removes it again"
)


def prime_rl_commit(directory: Path) -> str:
    """Return the commit of prime-rl's checkout; ``unknown`` where nothing says it.

    An image has no ``.git``: there the file ``COMMIT`` says it (deploy/kubernetes/training).
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), "rev-parse", "--show-toplevel", "HEAD"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return _noted_commit(directory)
    top, _, commit = done.stdout.strip().partition("\n")
    own = done.returncode == 0 and Path(top) == directory.resolve()
    return commit if own else _noted_commit(directory)


def _noted_commit(directory: Path) -> str:
    file = directory / "COMMIT"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else "unknown"


def package() -> dict[str, str]:
    """Return this package's version, where it lies, and 16 hex digits of its source's SHA-256."""
    folder = Path(text2sql.__file__).parent
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        total.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode())
        total.update(file.read_bytes())
    return {
        "version": text2sql.__version__,
        "folder": str(folder),
        "code": total.hexdigest()[:16],
    }


def require_code(planned: str) -> None:
    """Raise Text2SqlError where this program's code is not what the run was planned with.

    ``planned`` is the ``code`` of ``package()`` there; empty where a person wrote the plan.
    """
    here = package()
    if planned and planned != here["code"]:
        raise Text2SqlError(
            f"This program has other code of text2sql ({here['code']}, in {here['folder']}) than "
            f"the step that started it ({planned}): build the training image anew from the same "
            "checkout."
        )


def check_environment(directory: Path) -> dict[str, str]:
    """Import the environment's package as prime-rl's workers will; return its ``package()``.

    Raises Text2SqlError where it cannot be imported, or has other code than this process: its
    judge would not be the one that filters and evaluates.
    """
    found = _imported(directory)
    here = package()
    if found.get("code") != here["code"]:
        raise Text2SqlError(
            f"prime-rl's environment has other code of text2sql ({found.get('code')}, in "
            f"{found.get('folder')}) than this project ({here['code']}): in {directory}, {_AGAIN}."
        )
    return found


def _imported(directory: Path) -> dict[str, str]:
    python = str(directory / ".venv" / "bin" / "python")
    try:
        done = subprocess.run(
            [python, "-P", "-c", _PROGRAM],
            cwd=directory,
            env=rl_environment(directory),
            capture_output=True,
            text=True,
            timeout=_IMPORT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Text2SqlError(f"prime-rl's Python {python} does not run: {error}.") from error
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise Text2SqlError(
            f"prime-rl's Python cannot import text2sql_env ({last}): in {directory}, {_AGAIN}."
        )
    found: dict[str, str] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found
