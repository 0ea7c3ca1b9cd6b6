"""``python -m pipelines.materialize --select ASSETS -c CONFIG``: make assets, as one Dagster run.

It is ``dagster asset materialize`` on this project and its instance, and takes the same options.
``HELP`` is what ``--help`` prints.
"""

from __future__ import annotations

import sys

from pipelines.programs.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.materialize"))

import re

import dagster as dg

from pipelines.home import open_instance
from pipelines.programs.dagster_program import become_dagster
from pipelines.runs.config_errors import refused_config
from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError

HELP = """\
Usage: python -m pipelines.materialize --select ASSETS [OPTIONS]

  Make assets of this project, as one Dagster run on its instance. It is
  "dagster asset materialize", whose selections work here, too.

Options:
  --select TEXT         What to make: names with commas between them, or a
                        selection such as 'key:"gold_results"+'.  [required]
  -c, --config PATH     A file of run config; may be given several times.
  --config-json TEXT    Run config as JSON instead.
  --partition TEXT      The training run's name, or the day (2026-03-02).
  -h, --help            Show this message and exit.

"python -m dagster asset list -m pipelines.definitions" shows all assets."""


def main(arguments: list[str]) -> None:
    """Prepare the home and become Dagster's command."""
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return
    if not any(word.split("=")[0] == "--select" for word in arguments):
        raise Text2SqlError(
            "Say which assets to make: python -m pipelines.materialize --select ASSETS"
            " (--help has all options)."
        )
    with open_instance():
        pass
    definitions = ["-m", "pipelines.definitions", "-d", str(CHECKOUT)]
    try:
        become_dagster("asset", "materialize", *definitions, *arguments)
    except SystemExit as left:
        if not left.code:
            print("Done. What came of it, and what every check found, is shown by: make ui")
        raise
    except dg.DagsterInvalidConfigError as error:
        reason = refused_config(error.errors[0].message)
        raise Text2SqlError(f"The run config is wrong: {reason}.") from error
    except (dg.DagsterInvalidSubsetError, dg.DagsterUnknownPartitionError) as error:
        raise Text2SqlError(_refused(str(error).partition("\n")[0])) from error


def _refused(words: str) -> str:
    """Say Dagster's words about assets that are not there as a person would; others as they are."""
    if missing := re.match(r"AssetKey\(s\) \[(.+?)\] were selected, but no", words):
        return (
            f"There is no asset {missing[1]}: python -m dagster asset list -m pipelines.definitions"
            " shows all."
        )
    return words
