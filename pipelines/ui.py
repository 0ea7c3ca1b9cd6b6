"""``python -m pipelines.ui``: Dagster's web interface on the artifact root's state."""

from __future__ import annotations

import os
import sys

from pipelines.home import open_instance
from pipelines.programs.program import become_dagster
from text2sql.common.artifacts import ROOT_VARIABLE, artifact_root
from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError


def main() -> None:
    """Prepare the home and become ``dagster dev``; further arguments are passed on."""
    os.environ[ROOT_VARIABLE] = str(artifact_root())
    with open_instance():
        pass
    # In the checkout, Dagster would warn that the dagster.yaml there is not the one it uses.
    os.chdir(os.environ["DAGSTER_HOME"])
    # The server that forks the steps finds what it preloads here, and else says nothing.
    paths = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    become_dagster("dev", "-m", "pipelines.definitions", "-d", str(CHECKOUT), *sys.argv[1:])


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
