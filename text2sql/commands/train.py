"""``text2sql train``: start a training run as a Dagster run."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import click

from text2sql.champion import ROOT_VARIABLE, local_root
from text2sql.checkout import CHECKOUT
from text2sql.datasets.text_files import read_text
from text2sql.errors import Text2SqlError
from text2sql.stopping import hold_signals


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--set",
    "settings",
    metavar="SETTING=VALUE",
    multiple=True,
    help="A setting of the trainer (learning_rate=3e-4), or of another asset "
    "(training_prompts.minimum_prompts=8). May be repeated.",
)
@click.option(
    "--from",
    "start_from",
    metavar="base|champion|RUN",
    default="",
    help="The policy to filter the prompts with and to start from; default: base.",
)
@click.option("--backend", default="", help="The trainer: trl (default), prime_rl and so on.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, readable=False),
    help="A run config, as the launchpad takes it, for everything else.",
)
@click.option("--dry-run", is_flag=True, help="Check everything, show the run config, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def command(
    name: str,
    settings: tuple[str, ...],
    start_from: str,
    backend: str,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start the training run NAME: filter the prompts, train, and evaluate, as a Dagster run.

    It is the job "training" with NAME as its partition, on the dataset that is there; the UI
    shows it like any other. The champion stays as it is. With the same settings a run that was
    stopped goes on, and one that has ended is not trained again.

    \b
    Exit status:
      0  trained and evaluated
      1  something to mend: a wrong name or setting, a failed stage
      2  wrong usage
    """
    if config is not None:
        read_text(config, "the run config")
    request = {
        "name": name,
        "settings": dict(_split(text) for text in settings),
        "start_from": start_from,
        "backend": backend,
        "config": str(config.resolve()) if config else "",
        "dry_run": dry_run,
        "as_json": as_json,
    }
    _require_dagster()
    os.environ[ROOT_VARIABLE] = str(local_root())
    os.chdir(CHECKOUT)
    hold_signals()  # the program takes them once it can tell them
    os.execv(sys.executable, [sys.executable, "-m", "pipelines.train", json.dumps(request)])


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is no SETTING=VALUE.", param_hint="--set")
    return name.strip(), value.strip()


def _require_dagster() -> None:
    """Refuse where the Dagster project or what it needs is not here."""
    if not (CHECKOUT / "pipelines" / "train.py").is_file():
        raise Text2SqlError(
            "Training runs are started in a checkout of the project: this is the library alone."
        )
    if importlib.util.find_spec("dagster") is None:
        raise Text2SqlError(
            "Training runs need Dagster: install text2sql-lifecycle[pipelines,local], or run "
            "make setup."
        )
