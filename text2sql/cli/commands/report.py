"""``text2sql report``: the report of a training run's evaluation as an HTML page."""

from __future__ import annotations

import json
from pathlib import Path

import click

from text2sql.common.artifacts import artifact_root
from text2sql.errors import Text2SqlError
from text2sql.evaluation.stored import find_evaluation


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--output",
    type=click.Path(path_type=Path, readable=False, dir_okay=False),
    help="Write the page here; default: report.html in the evaluation's folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the path.")
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
def command(run: str, output: Path | None, as_json: bool, show: bool) -> None:
    """Write the report of the training run RUN as one HTML page, and print its path.

    The run's evaluation is below the artifact root (TEXT2SQL_ROOT, or artifacts/). RUN may also
    name an evaluation on a held-out split, a folder below held_out; an unknown name lists all of
    them. The page needs no network. Its numbers are counted from rollouts.csv, next to the scores.

    \b
    Exit status:
      0  written
      1  an error you can fix: no such run, no report, a full disk
      2  wrong usage
    """
    from text2sql.common.files import write_whole
    from text2sql.evaluation.report.files import PAGE, render_again

    folder = find_evaluation(artifact_root(), run)
    page = write_whole(output or folder / PAGE, render_again(folder))
    click.echo(json.dumps({"run": run, "page": str(page)}) if as_json else page)
    if show and click.launch(str(page)):
        raise Text2SqlError(f"No browser could be started; open {page} yourself.")
