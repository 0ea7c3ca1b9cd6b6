"""``python -m pipelines.materialize --select ASSETS -c CONFIG``: make assets, as one Dagster run.

It takes the options of ``dagster asset materialize``, which would lose the run's origin and
history.
"""

from __future__ import annotations

import sys

from pipelines.programs.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.materialize"))

import argparse
import json
from functools import reduce
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.partitions import TRAINING_RUN, days
from pipelines.config_errors import check_run_config
from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.runs.launch import ASSETS, CommandRuns
from resources.run_config import read_run_config
from text2sql.common.artifacts import artifact_root, logs_folder
from text2sql.errors import Text2SqlError


def main(arguments: list[str]) -> None:
    """Launch the run and follow it to its end."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.materialize",
        description="Make assets of this project, as one Dagster run on its instance.",
        epilog='"python -m dagster asset list -m pipelines.definitions" shows all assets.',
    )
    parser.add_argument(
        "--select",
        required=True,
        help='what to make: names with commas between them, or a selection: key:"gold_results"+',
    )
    parser.add_argument(
        *("-c", "--config"),
        type=Path,
        action="append",
        default=[],
        help="a file of run config; may be given several times",
    )
    parser.add_argument("--config-json", default="{}", help="run config as JSON instead")
    parser.add_argument(
        "--partition", default="", help="the training run's name, or the day (2026-03-02)"
    )
    options = parser.parse_args(arguments)
    try:
        config = json.loads(options.config_json) | {}
    except (ValueError, TypeError) as error:
        raise Text2SqlError(f"--config-json is not an object in JSON: {error}.") from error
    config = reduce(_merged, (*map(read_run_config, options.config), config))
    assets = _selected(options.select)
    check_run_config(defs.resolve_implicit_global_asset_job_def(), config)
    log = logs_folder(artifact_root()) / "materialize.log"
    with open_instance() as instance:
        _check_partition(instance, assets, options.partition)
        with CommandRuns(instance, log) as runs:
            runs.run(ASSETS, options.partition, config, assets)
    print("Done. To see the results, and what every check found: make ui")


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return a config laid over another, field by field."""
    both = {name for name in above if isinstance(below.get(name), dict)}
    deeper = {n: _merged(below[n], above[n]) for n in both if isinstance(above[n], dict)}
    return below | above | deeper


def _selected(text: str) -> list[dg.AssetKey]:
    """Return the assets of a selection, in order of their names."""
    graph = defs.resolve_asset_graph()
    words = {dg.AssetKey.from_user_string(word.strip()) for word in text.split(",")}
    if words <= graph.get_all_asset_keys():
        return sorted(words)
    try:
        if found := dg.AssetSelection.from_string(text).resolve(graph):
            return sorted(found)
    except dg.DagsterError:
        pass  # its sentence about an unknown name speaks of definitions in Python
    raise Text2SqlError(
        f"No asset matches --select {text}: python -m dagster asset list -m pipelines.definitions "
        "shows all."
    )


def _check_partition(
    instance: dg.DagsterInstance, assets: list[dg.AssetKey], partition: str
) -> None:
    """Raise Text2SqlError unless every asset that is partitioned has this partition."""
    graph = defs.resolve_asset_graph()
    first, last = days.get_first_partition_key(), days.get_last_partition_key()
    for key in assets:
        kind = graph.get(key).partitions_def
        if kind == days:
            known = days.has_partition_key(partition)
            needed = f"a day from {first} to {last}"
        else:
            known = kind is None or partition in instance.get_dynamic_partitions(TRAINING_RUN)
            needed = "a training run, which python -m pipelines.partitions NAME adds"
        if not known:
            hint = f"--partition {partition} is not one" if partition else "give --partition"
            raise Text2SqlError(f"{key.to_user_string()} needs {needed}: {hint}.")
