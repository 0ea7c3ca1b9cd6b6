"""``text2sql train``: start a training run as a Dagster run."""

from __future__ import annotations

from pathlib import Path

import click

from text2sql.cli.options.dagster import continue_as
from text2sql.cli.options.types import FILE
from text2sql.common.files import read_text


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--set",
    "settings",
    metavar="SETTING=VALUE",
    multiple=True,
    help="A setting of the trainer (learning_rate=3e-4) or of another asset "
    "(training_prompts.minimum_prompts=8). Repeatable.",
)
@click.option(
    "--from",
    "start_from",
    metavar="base|champion|RUN",
    help="The policy that filters the prompts and that training starts from; default: base.",
)
@click.option(
    "--backend", help="The trainer: trl (default), prime_rl, prime_rl_lora or prime_rl_slurm."
)
@click.option(
    "--config", type=FILE, help="A run config as in Dagster's launchpad, for everything else."
)
@click.option(
    "--dry-run", is_flag=True, help="Validate everything and print the run config; start nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def command(
    name: str,
    settings: tuple[str, ...],
    start_from: str | None,
    backend: str | None,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start the training run NAME: filter the prompts, train and evaluate, as a Dagster run.

    Runs the job "training" with NAME as its partition on the current dataset; the UI shows the
    run. The champion does not change. With the same settings a stopped run resumes, and a finished
    one is not trained again.

    \b
    Exit status:
      0  trained and evaluated
      1  an error you can fix: an invalid name or setting, a failed stage
      2  wrong usage
    """
    if config is not None:
        read_text(config, "the run config")
    changed = {}
    for text in settings:
        setting, equals, value = text.partition("=")
        if not equals or not setting:
            raise click.BadParameter(f"{text!r} is not SETTING=VALUE.", param_hint="--set")
        changed[setting.strip()] = value.strip()
    request = {
        "name": name,
        "settings": changed,
        "start_from": start_from or "",
        "backend": backend or "",
        "config": str(config.resolve()) if config else "",
        "dry_run": dry_run,
        "as_json": as_json,
    }
    continue_as("pipelines.programs.train", request, "Training runs")
