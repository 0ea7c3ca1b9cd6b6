"""``python -m pipelines.materialize --select ASSETS -c CONFIG``: make assets, as one Dagster run.

It is ``dagster asset materialize`` on this project and its instance, and takes the same options.
"""

from __future__ import annotations

import sys

from pipelines.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.materialize"))

from pipelines.dagster_program import become_dagster
from pipelines.home import open_instance
from resources.paths import CHECKOUT


def main(arguments: list[str]) -> None:
    """Prepare the home and become Dagster's command."""
    with open_instance():
        pass
    definitions = ["-m", "pipelines.definitions", "-d", str(CHECKOUT)]
    become_dagster("asset", "materialize", *definitions, *arguments)
