"""``text2sql train``: one training run, filtered, trained and evaluated, as a real Dagster run.

``python -m pipelines.programs.train REQUEST`` with a ``Request`` as JSON. The run is the job
``training`` with the name as its partition; the champion does not change.
"""

from __future__ import annotations

import sys

from pipelines.programs.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.programs.train"))

import json
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Any

import yaml

from assets.common.partitions import require_run_name
from assets.training.config import require_trainable
from pipelines.home import check_variables, open_instance
from pipelines.partitions import add_training_run
from pipelines.programs.screen import Screen
from pipelines.programs.train_config import (
    Request,
    describe,
    require_free,
    start_of,
    trainer_of,
    training_config,
)
from pipelines.runs.launch import CommandRuns
from resources.paths import ArtifactRoot
from text2sql.common.artifacts import evaluation_folder, logs_folder
from text2sql.common.files import write_whole
from text2sql.datasets.stored import load_current
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import ADOPTED_RUN, champion_record
from text2sql.evaluation.scores import score_rows, text_table
from text2sql.evaluation.stored import read_scores
from text2sql.training.runs import StartPolicy, find_start, read_training

JOB = "training"


def main(arguments: list[str]) -> None:
    """Check the request, and start the run unless it is a dry run."""
    request = _request(arguments)
    check_variables()
    root = ArtifactRoot()
    require_run_name(request.name)
    load_current(root.path)
    config = training_config(request)
    trainer, start = trainer_of(config), find_start(root.path, start_of(config))
    start.require_other(request.name)
    require_free(root.path, request.name, trainer, start)
    about = {
        "training_run": request.name,
        "starts_from": _describe_start(start),
        "trainer": describe(trainer),
        "config": config,
    }
    with redirect_stdout(sys.stderr if request.as_json else sys.stdout):
        for label in ("training_run", "starts_from", "trainer"):
            print(f"{label.replace('_', ' '):<14}{about[label]}", flush=True)
        if request.dry_run:
            print(f"\nRun config of the job {JOB}; nothing was started:\n{yaml.safe_dump(config)}")
        require_trainable(root.path, request.name, config, trainer)
        if not request.dry_run:
            about |= _run(root, request.name, config)
            _show(root, request.name)
    if request.as_json:
        print(json.dumps(about))


def _request(arguments: list[str]) -> Request:
    try:
        return Request(**json.loads(arguments[0]))
    except (IndexError, ValueError, TypeError) as error:
        raise Text2SqlError("Start a training run with: text2sql train NAME.") from error


def _describe_start(start: StartPolicy) -> str:
    run = f" (training run {start.training_run}, revision {start.revision})"
    return f"{start.name}{run if start.training_run else ''}"


def _run(root: ArtifactRoot, name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Add the training run and execute the job for it; return the results."""
    log = logs_folder(root.path) / f"training-{name}.log"
    write_whole(log.with_suffix(".yaml"), yaml.safe_dump(config))
    screen = Screen()
    with open_instance() as instance, CommandRuns(instance, log) as runs:
        add_training_run(instance, name)
        run = runs.run(JOB, name, config, on_stage=screen.finished, on_tick=screen.tick)
    trained = read_training(root.path, name)
    return {
        "dagster_run": run.run_id,
        "policy": trained["policy"],
        "policy_revision": trained["policy_revision"],
        "scores": [asdict(score) for score in read_scores(root.path, name).scores],
    }


def _show(root: ArtifactRoot, name: str) -> None:
    """Print the scores and possible next steps."""
    print(f"\n{text_table(score_rows(read_scores(root.path, name), ('all', 'subset')))}\n")
    print("Percent of questions answered right [95 % interval]; gained and lost against the base.")
    print(f"model card    {evaluation_folder(root.path, name) / 'README.md'}")
    print(f"made from     text2sql lineage {name}")
    champion = champion_record(root.path).get("training_run")
    if champion not in (None, ADOPTED_RUN, name):
        print(f"the champion  text2sql compare {champion} {name}")
