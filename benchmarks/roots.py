"""Where benchmarks run: in this checkout, on artifact roots of their own."""

from __future__ import annotations

import os
from pathlib import Path


def environment(root: Path) -> dict[str, str]:
    """Make an artifact root; return the environment of a program that works on it."""
    root.mkdir(parents=True, exist_ok=True)
    return os.environ | {"TEXT2SQL_ROOT": str(root), "DAGSTER_HOME": ""}
