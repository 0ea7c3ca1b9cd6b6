"""``text2sql predict``: a policy answers a questions file, into a file of predicted SQL."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import click

from text2sql.cli.options import chosen_policy
from text2sql.cli.options.asked import usable
from text2sql.cli.options.types import FILE, STDOUT, IntegerRange, NumberRange
from text2sql.cli.options.usage import require_apart
from text2sql.cli.output.evaluate_output import report_unusable, require_forms
from text2sql.cli.output.predict_output import (
    announcing_stored,
    as_object,
    as_text,
    missing_in,
    warn,
)
from text2sql.common.files import require_writable, write_whole
from text2sql.common.progress import show_progress
from text2sql.datasets.reading.questions import read_records
from text2sql.errors import InfrastructureError
from text2sql.evaluation.predictions.predict import Drawing, predict, store_name
from text2sql.evaluation.predictions.writing import write_predictions
from text2sql.evaluation.promotion.champion import choose
from text2sql.policy.base import Sampling
from text2sql.rollouts.store import RolloutStore
from text2sql.sandbox import Sandbox


@click.command()
@click.option("--questions", required=True, type=FILE, help="BIRD's dev.json, or a file like it.")
@click.option("--databases", required=True, type=FILE, help="Folder with the SQLite files.")
@click.option(
    "--out",
    type=FILE,
    required=True,
    multiple=True,
    callback=require_forms,
    metavar="FILE",
    help="The predictions to write: in BIRD's format if FILE ends with .json, in Spider's if with "
    ".sql or .txt.",
)
@chosen_policy.policy_option
@chosen_policy.model_option
@click.option(
    "--votes",
    type=IntegerRange(1, 128),
    default=1,
    help="Rollouts per question that vote; a single one is greedy.",
)
@click.option(
    "--temperature",
    type=NumberRange(0, 2, min_open=True),
    help="Temperature of rollouts that vote; default: 1.",
)
@chosen_policy.single_turn_flag
@click.option(
    "--concurrency", type=IntegerRange(1, 4096), default=16, help="Rollouts at the same time."
)
@click.option(
    "--rollouts", "folder", type=FILE, help="Folder for rollouts; default: beside the first FILE."
)
@click.option(
    "--again",
    is_flag=True,
    help="Draw all rollouts anew; stored ones stay, in a file with another name.",
)
@click.option(
    "--json", "json_path", type=FILE, help="Also write votes as JSON; '-' prints only this."
)
def command(
    questions: Path,
    databases: Path,
    out: tuple[Path, ...],
    spec: str | None,
    model: str | None,
    votes: int,
    temperature: float | None,
    single_turn: bool,
    concurrency: int,
    folder: Path | None,
    again: bool,
    json_path: Path | None,
) -> None:
    """Let a policy answer a questions file, for `text2sql evaluate` or an official evaluator.

    The questions need no gold SQL. Each rollout is stored when it ends: the same command resumes
    where it stopped, and with more votes it draws only the missing rollouts. Rollouts of other
    prompts, sampling settings, questions, databases or weights are never mixed in; where a server
    does not say which weights it serves, a warning says so. A question whose rollouts all fail or
    return nothing gets no SQL.

    \b
    Exit status:
      0  every usable question was asked
      1  an error you can fix: a file, a database, the policy
      2  wrong usage
      6  the server, a worker or a database failed: some questions or all were not asked;
         run it again to resume
    """
    if temperature is not None and votes == 1:
        raise click.UsageError("--temperature is for rollouts that vote: give --votes 2 or more.")
    json_file = None if json_path == STDOUT else json_path
    for file in out:
        file.parent.mkdir(parents=True, exist_ok=True)
    for file in filter(None, [*out, json_file]):
        require_writable(file)  # before hours of work
    records = read_records(questions, databases, "dev", needs_gold=False)
    asked = usable(records, questions, databases, "asked", "a question and its database")
    require_apart([*out, json_file], [questions, *(one.database for one in asked)])
    report_unusable(records)
    policy, settings = chosen_policy.open_chosen(choose(spec), model, single_turn)
    sampling = Sampling(0.0) if votes == 1 else Sampling(temperature or 1.0)
    drawing = Drawing(votes, sampling, settings)
    name = store_name(questions, asked, drawing, policy.info.revision)
    store = RolloutStore((folder or out[0].parent / "rollouts") / name)
    if again and store.path.exists():
        earlier = (store.path.with_suffix(f".{number}.jsonl") for number in count(1))
        store.path.rename(next(path for path in earlier if not path.exists()))
    try:
        with Sandbox() as sandbox, show_progress("rollouts") as progress:
            announced = announcing_stored(progress, policy.info)
            work = predict(asked, policy, sandbox, drawing, store, concurrency, announced)
            found = chosen_policy.run_with(policy, work)
    except KeyboardInterrupt:
        click.echo(f"interrupted: the same command resumes from {store.path}", err=True)
        raise
    write_predictions(out, {one.question.key: one.sql for one in found}, records)
    result = as_object(found, policy.info, drawing, questions, store.path)
    text = json.dumps(result, indent=1)
    if json_file is not None:
        write_whole(json_file, f"{text}\n")
    warn(found)
    click.echo(text if json_path == STDOUT else as_text(found, result))
    if sentence := missing_in(found):
        raise InfrastructureError(sentence)
