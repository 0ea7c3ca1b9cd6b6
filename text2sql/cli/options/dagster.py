"""The surrounding Dagster project: running a job in it, and updating its records."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from text2sql.common.artifacts import ROOT_VARIABLE, artifact_root, dagster_home
from text2sql.common.checkout import CHECKOUT
from text2sql.common.stopping import block_signals
from text2sql.errors import Text2SqlError

_DEFINITIONS = CHECKOUT / "pipelines" / "definitions.py"


def continue_as(module: str, request: dict[str, Any], what: str) -> NoReturn:
    """Become ``python -m MODULE REQUEST``, with the request as JSON, in the checkout.

    ``what`` names in the plural what it starts. Raises Text2SqlError if this is not a checkout of
    the Dagster project, or Dagster is not installed.
    """
    if not _DEFINITIONS.is_file():
        raise Text2SqlError(f"{what} need a checkout of the project: this is the library alone.")
    if importlib.util.find_spec("dagster") is None:
        raise Text2SqlError(
            f"{what} need Dagster: install text2sql-lifecycle[pipelines,local], or run make setup."
        )
    os.environ[ROOT_VARIABLE] = str(artifact_root())
    os.chdir(CHECKOUT)
    block_signals()  # until the program can end with a sentence
    os.execv(sys.executable, [sys.executable, "-m", module, json.dumps(request)])


def record_champion(root: Path) -> str:
    """Let Dagster record the champion of an artifact root; return what went wrong.

    Empty if it is recorded, or if this is no checkout of the project, Dagster is not installed,
    or it has no instance here.
    """
    instance = dagster_home(root).is_dir() or os.environ.get("DAGSTER_HOME")
    if not (instance and _DEFINITIONS.is_file() and importlib.util.find_spec("dagster")):
        return ""
    # A process of its own: the library and its commands import no Dagster.
    command = [sys.executable, "-m", "pipelines.programs.champion"]
    environment = os.environ | {ROOT_VARIABLE: str(root)}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    if not done.returncode:
        return ""
    lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return lines[-1].removeprefix("error: ").rstrip(".")
