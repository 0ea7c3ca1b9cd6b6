"""Letting Dagster's records follow what a command changed, in a process of the project's own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from text2sql.common.artifacts import ROOT_VARIABLE
from text2sql.common.checkout import CHECKOUT


def record_champion(root: Path) -> str:
    """Let Dagster record who is champion below an artifact root now; say what went wrong.

    Empty where it is recorded, or where this is no checkout of the project, Dagster is not
    installed, or has no instance here.
    """
    instance = (root / "dagster_home").is_dir() or os.environ.get("DAGSTER_HOME")
    program = CHECKOUT / "pipelines" / "programs" / "champion.py"
    if not (instance and program.is_file() and importlib.util.find_spec("dagster")):
        return ""
    command = [sys.executable, "-m", "pipelines.programs.champion"]
    named = os.environ | {ROOT_VARIABLE: str(root)}
    done = subprocess.run(command, cwd=CHECKOUT, env=named, capture_output=True, text=True)
    if not done.returncode:
        return ""
    lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return lines[-1].removeprefix("error: ").rstrip(".")
