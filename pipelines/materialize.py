"""``python -m pipelines.materialize --select ASSETS -c CONFIG``: make assets, as one Dagster run.

It is ``dagster asset materialize`` on this project and its instance, and takes the same options.
"""

from __future__ import annotations

import sys

from pipelines.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.materialize"))

import dagster as dg

from pipelines.config_errors import refused_config
from pipelines.dagster_program import become_dagster
from pipelines.home import open_instance
from text2sql.checkout import CHECKOUT
from text2sql.errors import Text2SqlError


def main(arguments: list[str]) -> None:
    """Prepare the home and become Dagster's command."""
    with open_instance():
        pass
    definitions = ["-m", "pipelines.definitions", "-d", str(CHECKOUT)]
    try:
        become_dagster("asset", "materialize", *definitions, *arguments)
    except dg.DagsterInvalidConfigError as error:
        reason = refused_config(error.errors[0].message)
        raise Text2SqlError(f"The run config is wrong: {reason}.") from error
    except (dg.DagsterInvalidSubsetError, dg.DagsterUnknownPartitionError) as error:
        raise Text2SqlError(str(error).partition("\n")[0]) from error
