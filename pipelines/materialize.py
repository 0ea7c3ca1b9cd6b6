"""``python -m pipelines.materialize --select ASSETS -c CONFIG``: make assets, as one Dagster run.

It takes the options of ``dagster asset materialize``, which would lose the run's origin and
history. ``HELP`` is what ``--help`` prints.
"""

from __future__ import annotations

import sys

from pipelines.programs.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.materialize"))

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg

from assets.common.partitions import TRAINING_RUN, days
from pipelines.config_errors import check_run_config
from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.runs.launch import ASSETS, CommandRuns
from resources.run_config import read_run_config
from text2sql.common.artifacts import artifact_root, logs_folder
from text2sql.errors import Text2SqlError

HELP = """\
Usage: python -m pipelines.materialize --select ASSETS [OPTIONS]

  Make assets of this project, as one Dagster run on its instance. The
  selections of "dagster asset materialize" work here, too.

Options:
  --select TEXT         What to make: names with commas between them, or a
                        selection such as 'key:"gold_results"+'.  [required]
  -c, --config PATH     A file of run config; may be given several times.
  --config-json TEXT    Run config as JSON instead.
  --partition TEXT      The training run's name, or the day (2026-03-02).
  -h, --help            Show this message and exit.

"python -m dagster asset list -m pipelines.definitions" shows all assets."""


class _Parser(argparse.ArgumentParser):
    """Reports a wrong option in a sentence."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong, instead of printing the usage."""
        raise Text2SqlError(f"{message[:1].upper()}{message[1:]} (--help lists all options).")


def main(arguments: list[str]) -> None:
    """Launch the run and follow it to its end."""
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--select", default="")
    parser.add_argument("-c", "--config", type=Path, action="append", default=[])
    parser.add_argument("--config-json", default="{}")
    parser.add_argument("--partition", default="")
    options = parser.parse_args(arguments)
    if not options.select:
        raise Text2SqlError(
            "Say which assets to make: python -m pipelines.materialize --select ASSETS"
            " (--help has all options)."
        )
    config = _config(options.config, options.config_json)
    assets = _selected(options.select)
    check_run_config(defs.resolve_implicit_global_asset_job_def(), config)
    log = logs_folder(artifact_root()) / "materialize.log"
    with open_instance() as instance:
        _check_partition(instance, assets, options.partition)
        with CommandRuns(instance, log) as runs:
            runs.run(ASSETS, options.partition, config, assets)
    print("Done. What came of it, and what every check found, is shown by: make ui")


def _config(files: Sequence[Path], text: str) -> dict[str, Any]:
    """Return the run config: the files' and the JSON's, later ones over earlier ones."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Text2SqlError(f"--config-json is not JSON: {error}.") from error
    if not isinstance(given, dict):
        raise Text2SqlError("--config-json must be an object.")
    merged: dict[str, Any] = {}
    for part in (*map(read_run_config, files), given):
        merged = _merged(merged, part)
    return merged


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return a config laid over another, field by field."""
    both = {name for name in above if isinstance(below.get(name), dict)}
    deeper = {n: _merged(below[n], above[n]) for n in both if isinstance(above[n], dict)}
    return below | above | deeper


def _selected(text: str) -> list[dg.AssetKey]:
    """Return the assets of a selection, in order of their names."""
    graph = defs.resolve_asset_graph()
    known = graph.get_all_asset_keys()
    words = [dg.AssetKey.from_user_string(word.strip()) for word in text.split(",")]
    if set(words) <= known:
        return sorted(set(words))
    try:
        found = dg.AssetSelection.from_string(text).resolve(graph)
    except dg.DagsterError as error:
        if missing := [key for key in words if key not in known]:
            raise Text2SqlError(
                f"There is no asset '{missing[0].to_user_string()}': python -m dagster asset list "
                "-m pipelines.definitions shows all."
            ) from error
        raise Text2SqlError(str(error).partition("\n")[0]) from error
    if not found:
        raise Text2SqlError(f"No asset matches --select {text}.")
    return sorted(found)


def _check_partition(
    instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey], partition: str
) -> None:
    """Refuse a partition that the assets do not have, or none where they need one."""
    graph = defs.resolve_asset_graph()
    divided = [key for key in assets if graph.get(key).partitions_def]
    kinds = {graph.get(key).partitions_def for key in divided}
    if divided and not partition:
        raise Text2SqlError(
            f"{divided[0].to_user_string()} is made for one training run or day: name it with "
            "--partition."
        )
    if len(kinds) > 1:
        raise Text2SqlError(
            "These assets are partitioned in two ways, by training run and by day: make them in "
            "two runs."
        )
    if kinds == {days}:
        if not days.has_partition_key(partition):
            raise Text2SqlError(
                f"There is no day {partition}: days go from {days.get_first_partition_key()} to "
                f"{days.get_last_partition_key()}."
            )
    elif kinds and partition not in instance.get_dynamic_partitions(TRAINING_RUN):
        raise Text2SqlError(
            f"There is no training run {partition}: add it with python -m pipelines.partitions."
        )
