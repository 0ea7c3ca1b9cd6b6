"""``text2sql train``: start a training run as a Dagster run."""

from __future__ import annotations

from pathlib import Path

import click

from text2sql.cli.options.dagster_program import go_on_as
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
    default="",
    help="The policy that filters the prompts and that training starts from; default: base.",
)
@click.option(
    "--backend",
    default="",
    help="The trainer: trl (default), prime_rl, prime_rl_lora or prime_rl_slurm.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, readable=False),
    help="A run config file, as in the launchpad, for everything else.",
)
@click.option(
    "--dry-run", is_flag=True, help="Validate everything and print the run config; start nothing."
)
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
    """Start the training run NAME: filter the prompts, train and evaluate, as a Dagster run.

    Runs the job "training" with NAME as its partition, on the current dataset; the UI shows it
    like any other run. The champion does not change. With the same settings a stopped run resumes,
    and a finished one is not trained again.

    \b
    Exit status:
      0  trained and evaluated
      1  an error you can fix: an invalid name or setting, a failed stage
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
    go_on_as("pipelines.programs.train", request, "Training runs")


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is no SETTING=VALUE.", param_hint="--set")
    return name.strip(), value.strip()
