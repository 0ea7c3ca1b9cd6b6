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
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from assets.common.partitions import require_run_name
from assets.training.config import BACKENDS, TrainerConfig, TrlConfig, read_forms, require_trainable
from pipelines.config_errors import check_run_config
from pipelines.home import check_variables, open_instance
from pipelines.partitions import add_training_run
from pipelines.programs.screen import follow, scores_text
from pipelines.runs.launch import CommandRuns
from resources.artifact_root import ArtifactRoot
from resources.forms import InvalidValue
from resources.run_config import part_of, read_run_config
from text2sql.common.artifacts import evaluation_folder, logs_folder
from text2sql.common.files import write_whole
from text2sql.datasets.stored import load_current
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import ADOPTED_RUN, champion_record
from text2sql.evaluation.stored import read_scores
from text2sql.training.backends import identity_settings
from text2sql.training.runs import FROM_BASE, StartPolicy, find_start, read_training, run_state
from text2sql.training.settings import resolved


@dataclass(frozen=True)
class Request:
    """The request of a command: the run's name and what differs from the defaults.

    ``settings`` are the trainer's by name, or another asset's as ASSET.NAME, with their values as
    typed. ``config`` is a file of run config, which the rest overrides.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    start_from: str = ""
    backend: str = ""
    config: str = ""
    dry_run: bool = False
    as_json: bool = False


def main(arguments: list[str]) -> None:
    """Check the request, and start the run unless it is a dry run."""
    request = Request(**json.loads(arguments[0]))
    check_variables()
    root, name = ArtifactRoot().path, request.name
    require_run_name(name)
    config = training_config(request)
    trainer = trainer_of(config)
    load_current(root)  # after the settings, so that a wrong one is named first
    start = find_start(root, config["ops"]["grpo_policy"]["config"].get("start_from", FROM_BASE))
    start.require_other(name)
    require_free(root, name, trainer, start)
    origin = f" (training run {start.training_run}, revision {start.revision})"
    about = {
        "training_run": name,
        "starts_from": f"{start.name}{origin if start.training_run else ''}",
        "trainer": describe(trainer),
        "config": config,
    }
    with redirect_stdout(sys.stderr if request.as_json else sys.stdout):
        for label in ("training_run", "starts_from", "trainer"):
            print(f"{label.replace('_', ' '):<14}{about[label]}", flush=True)
        if request.dry_run:
            print(
                f"\nRun config of the job training; nothing was started:\n{yaml.safe_dump(config)}"
            )
        require_trainable(root, name, config, trainer)
        if not request.dry_run:
            about |= _run(root, name, config)
            _show(root, name)
    if request.as_json:
        print(json.dumps(about))


def _run(root: Path, name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Add the training run and execute the job for it; return the results."""
    log = logs_folder(root) / f"training-{name}.log"
    write_whole(log.with_suffix(".yaml"), yaml.safe_dump(config))
    with open_instance() as instance, CommandRuns(instance, log) as runs:
        add_training_run(instance, name)
        run = follow(runs, "training", name, config)
    trained = read_training(root, name)
    return {
        "dagster_run": run.run_id,
        "policy": trained["policy"],
        "policy_revision": trained["policy_revision"],
        "scores": [asdict(score) for score in read_scores(root, name).scores],
    }


def _show(root: Path, name: str) -> None:
    """Print the scores and possible next steps."""
    print(scores_text(root, name))
    print(f"model card    {evaluation_folder(root, name) / 'README.md'}")
    print(f"made from     text2sql lineage {name}")
    champion = champion_record(root).get("training_run")
    if champion not in (None, ADOPTED_RUN, name):
        print(f"the champion  text2sql compare {champion} {name}")


def training_config(request: Request) -> dict[str, Any]:
    """Return the run config; raise Text2SqlError if something in it is invalid."""
    from pipelines.definitions import defs

    config = read_run_config(Path(request.config)) if request.config else {}
    ops = part_of(config, "ops")
    if request.start_from:
        for asset in ("base_rollouts", "grpo_policy"):
            part_of(ops, asset, "config")["start_from"] = request.start_from
    given = part_of(ops, "grpo_policy", "config", "trainer")
    backend = request.backend or next(iter(given), "trl")
    settings = part_of(given, backend)
    for name, text in request.settings.items():
        asset, _, setting = name.rpartition(".")
        try:
            value = json.loads(text)  # a number, true, false or null
        except ValueError:
            value = text
        (part_of(ops, asset, "config") if asset else settings)[setting] = value
    # Only the chosen backend's settings count: the file may be written for another one.
    ops["grpo_policy"]["config"]["trainer"] = {backend: settings}
    trainer_of(config)
    check_run_config(defs.resolve_job_def("training"), config)
    read_forms(config)
    return config


def trainer_of(config: Mapping[str, Any]) -> TrainerConfig:
    """Return the trainer of a run config with all its settings.

    Raises Text2SqlError for an unknown trainer or setting, and for an invalid value.
    """
    given = config["ops"]["grpo_policy"]["config"]["trainer"]
    [(backend, settings)] = given.items()
    if backend not in BACKENDS:
        raise Text2SqlError(f"There is no trainer '{backend}': use {', '.join(BACKENDS)}.")
    known = [name for name in BACKENDS[backend].model_fields if name != "backend"]
    if unknown := [name for name in settings or {} if name not in known]:
        raise Text2SqlError(f"{backend} has no setting '{unknown[0]}': it has {', '.join(known)}.")
    values = resolved(settings or {})
    try:
        return BACKENDS[backend](**values)
    except InvalidValue as error:
        raise Text2SqlError(f"{backend}: {error}") from error


def require_free(root: Path, run: str, trainer: TrainerConfig, start: StartPolicy) -> None:
    """Refuse the name of an existing run that has other settings or another start."""

    def identity(settings: TrainerConfig, source: Any, origin: str | None) -> dict[str, Any]:
        """Return what must not change once a run of this name exists."""
        starts = f"{source} ({origin})" if origin else source
        own = identity_settings(settings.backend, settings)
        return own | {"starts from": starts, "trainer": settings.backend}

    before = run_state(root, run)
    if not before:
        return
    if before.get("backend") not in BACKENDS:
        raise Text2SqlError(f"The training run {run} was trained elsewhere: choose another name.")
    first = before["start"]
    earlier = BACKENDS[before["backend"]](**before["settings"])
    found = identity(earlier, first.get("from"), first.get("training_run"))
    asked = identity(trainer, start.name, start.training_run)
    if names := [name for name in found | asked if found.get(name) != asked.get(name)]:
        differ = ", ".join(f"{n}: {found.get(n)}, not {asked.get(n)}" for n in names)
        raise Text2SqlError(
            f"The training run {run} exists with other settings ({differ}): choose another name."
        )


def describe(trainer: TrainerConfig) -> str:
    """Return the trainer's name and those of its settings that are not the defaults."""
    given = trainer.model_dump(exclude={"backend"})
    defaults = {name: type(trainer).model_fields[name].default for name in given}
    changed = [f"{name} {value}" for name, value in given.items() if value != defaults[name]]
    kind = "TRL in one process" if isinstance(trainer, TrlConfig) else "prime-rl on GPUs"
    return f"{trainer.backend} ({kind}); {', '.join(changed) or 'default settings'}"
