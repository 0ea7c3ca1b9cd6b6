"""Updating Dagster's records after a command changed something, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from text2sql.common.artifacts import ROOT_VARIABLE, dagster_home
from text2sql.common.checkout import CHECKOUT


def record_champion(root: Path) -> str:
    """Let Dagster record the champion of an artifact root; return what went wrong.

    Empty if it is recorded, or if this is no checkout of the project, Dagster is not installed,
    or it has no instance here.
    """
    instance = dagster_home(root).is_dir() or os.environ.get("DAGSTER_HOME")
    project = CHECKOUT / "pipelines" / "definitions.py"
    if not (instance and project.is_file() and importlib.util.find_spec("dagster")):
        return ""
    command = [sys.executable, "-m", "pipelines.programs.champion"]
    named = os.environ | {ROOT_VARIABLE: str(root)}
    done = subprocess.run(command, cwd=CHECKOUT, env=named, capture_output=True, text=True)
    if not done.returncode:
        return ""
    lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return lines[-1].removeprefix("error: ").rstrip(".")
