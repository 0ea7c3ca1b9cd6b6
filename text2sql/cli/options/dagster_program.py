"""Continuing as a program of the surrounding Dagster project, which runs a job and follows it."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any, NoReturn

from text2sql.common.artifacts import ROOT_VARIABLE, artifact_root
from text2sql.common.checkout import CHECKOUT
from text2sql.common.stopping import block_signals
from text2sql.errors import Text2SqlError


def go_on_as(module: str, request: dict[str, Any], what: str) -> NoReturn:
    """Become ``python -m MODULE REQUEST``, the request as JSON, in the checkout.

    ``what`` names in the plural what it starts. Raises Text2SqlError if this is not a checkout of
    the Dagster project, or Dagster is not installed.
    """
    if not (CHECKOUT / "pipelines" / "definitions.py").is_file():
        raise Text2SqlError(f"{what} need a checkout of the project: this is the library alone.")
    if importlib.util.find_spec("dagster") is None:
        raise Text2SqlError(
            f"{what} need Dagster: install text2sql-lifecycle[pipelines,local], or run make setup."
        )
    os.environ[ROOT_VARIABLE] = str(artifact_root())
    os.chdir(CHECKOUT)
    block_signals()  # until the program can end with a sentence
    os.execv(sys.executable, [sys.executable, "-m", module, json.dumps(request)])
