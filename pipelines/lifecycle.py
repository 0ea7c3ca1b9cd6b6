"""``python -m pipelines.lifecycle``: the whole life of a model, as real runs.

Runs the jobs ``lifecycle`` and ``daily_answers`` one after the other, shows each stage as it
finishes, and ends with the scores. Finished work is reused. Without ``--config`` it is the demo, on
embedded data.
"""

from __future__ import annotations

import sys

from pipelines.programs.program import run_program

if __name__ == "__main__":  # before what follows is imported
    sys.exit(run_program("pipelines.lifecycle"))

import argparse
import time
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from assets.training.config import GrpoConfig, read_forms, require_trainable
from pipelines.config_errors import check_run_config
from pipelines.home import open_instance
from pipelines.partitions import add_training_run, today
from pipelines.programs.screen import LABELS, follow, scores_text
from pipelines.runs.launch import CommandRuns
from pipelines.runs.progress import Stage
from resources.artifact_root import ArtifactRoot
from resources.run_config import part_of, read_run_config
from text2sql.common.artifacts import evaluation_folder, logs_folder, prompts_folder, summary_file
from text2sql.common.files import write_whole
from text2sql.common.json_files import write_json
from text2sql.evaluation.promotion.champion import require_champion
from text2sql.evaluation.stored import read_scores
from text2sql.reporting.model.answer import AnswerStatus
from text2sql.reporting.tables.location import reporting_place
from text2sql.training.prompts import read_about
from text2sql.training.runs import read_training

CONFIG = Path(__file__).with_name("demo.yaml")


def main(arguments: list[str]) -> None:
    """Run the two jobs and show the results."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.lifecycle", description=__doc__)
    parser.add_argument("--run", default="demo", help="the training run's name (demo)")
    parser.add_argument("--seed", type=int, help="the seed of GRPO")
    parser.add_argument("--config", type=Path, default=CONFIG, help="run config of the lifecycle")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    root = ArtifactRoot()
    with open_instance() as instance:
        add_training_run(instance, options.run)
        stages = _run_jobs(instance, root, options)
    summary = _summary(root, options.run, stages, time.monotonic() - started)
    write_json(summary_file(root.path), summary)
    _show(root.path, options.run, summary)


def _run_jobs(
    instance: dg.DagsterInstance, root: ArtifactRoot, options: argparse.Namespace
) -> list[Stage]:
    """Run lifecycle and then today's answers; return their stages."""
    log, stages = logs_folder(root.path) / "lifecycle.log", list[Stage]()
    with CommandRuns(instance, log) as runs:
        config = _config(root, options)
        write_whole(log.with_suffix(".yaml"), yaml.safe_dump(config))
        for job, partition, own in (
            ("lifecycle", options.run, config),
            ("daily_answers", today(), {}),
        ):
            print(f"{job} ({partition})", flush=True)
            stages += follow(runs, job, partition, own).stages.values()
    return stages


def _config(root: ArtifactRoot, options: argparse.Namespace) -> dict[str, Any]:
    """Return the lifecycle's run config, checked and with the seed that was asked for."""
    from pipelines.definitions import defs

    config = read_run_config(options.config)
    if options.seed is not None:
        part_of(config, "ops", "grpo_policy", "config", "trainer", "trl")["seed"] = options.seed
    check_run_config(defs.resolve_job_def("lifecycle"), config)
    if isinstance(grpo := read_forms(config)["grpo_policy"], GrpoConfig):
        require_trainable(root.path, options.run, config, grpo.trainer)
    return config


def _summary(root: ArtifactRoot, run: str, stages: list[Stage], seconds: float) -> dict[str, Any]:
    """Return the results, for programs."""
    answers = next(stage.metadata for stage in stages if stage.name == "report_answers")
    prompts = read_about(prompts_folder(root.path))
    training = read_training(root.path, run)
    return {
        "training_run": run,
        "seconds": round(seconds, 1),
        "stages": {s.name: round(s.seconds, 1) for s in stages if s.name in LABELS},
        "prompts": {"kept": prompts["kept"], "of": prompts["asked"]},
        "training": {key: training[key] for key in ("policy", "policy_revision", "seconds")},
        "champion": {
            k: require_champion(root.path)[k] for k in ("training_run", "policy", "revision")
        },
        "answers": {name: value for name, value in answers.items() if isinstance(value, int)},
        "scores": read_scores(root.path, run).to_dict(),
        "paths": {
            "root": str(root.path),
            "reporting": reporting_place(root.path),
            "model_card": str(evaluation_folder(root.path, run) / "README.md"),
        },
    }


def _near(path: str) -> str:
    """Return a path as seen from the current folder, where it lies below; a URL as it is."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _show(root: Path, run: str, summary: dict[str, Any]) -> None:
    """Print the scores and where to look next."""
    prompts, answers, paths = summary["prompts"], summary["answers"], summary["paths"]
    refused = [status for status in AnswerStatus if status is not AnswerStatus.ANSWERED]
    doubts = [f"{answers[kind]} {kind.replace('_', ' ')}" for kind in refused if answers.get(kind)]
    withheld = f"; not to trust: {', '.join(doubts)}" if doubts else ""
    print(scores_text(root, run))
    print(f"prompts kept      {prompts['kept']} of {prompts['of']}")
    print(f"training          {summary['training']['seconds']:.0f} s")
    print(f"answers published {answers['answered']} of {answers['questions']}{withheld}")
    print(f"everything        {summary['seconds']:.0f} s")
    print(f"\nmodel card        {_near(paths['model_card'])}")
    print(f"reporting tables  {_near(paths['reporting'])}")
    print(f"these numbers     {_near(paths['root'])}/summary.json")
    print("Dagster's UI      make ui")
