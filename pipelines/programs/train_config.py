"""The run config of a training run that somebody starts from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from assets.training.config import BACKENDS, TrainerConfig, TrlConfig
from assets.training.run_check import read_forms, resolved
from pipelines.runs.config_errors import refused_config
from resources.forms import InvalidValue
from resources.run_config import part_of, read_run_config
from text2sql.errors import Text2SqlError
from text2sql.training.backends import identity_settings
from text2sql.training.runs import FROM_BASE, StartPolicy, run_state

STARTING = ("base_rollouts", "grpo_policy")
"""The assets that have a policy to start from."""


@dataclass(frozen=True)
class Request:
    """What was asked for: the run's name and what differs from the defaults.

    ``settings`` are the trainer's by name, or another asset's as ASSET.NAME; their values are as
    they were typed. ``config`` is the file of a run config that all this is laid over.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    start_from: str = ""
    backend: str = ""
    config: str = ""
    dry_run: bool = False
    as_json: bool = False


def training_config(request: Request) -> dict[str, Any]:
    """Return the run config; raise Text2SqlError where something in it makes no sense."""
    config = read_run_config(Path(request.config)) if request.config else {}
    ops = part_of(config, "ops")
    if request.start_from:
        for asset in STARTING:
            _of(ops, asset)["start_from"] = request.start_from
    backend, settings = _trainer(_of(ops, "grpo_policy"), request.backend)
    for name, text in request.settings.items():
        asset, _, setting = name.rpartition(".")
        (_of(ops, asset) if asset else settings)[setting] = _value(text)
    _of(ops, "grpo_policy")["trainer"] = {backend: settings}
    trainer_of(config)
    _validate(config)
    read_forms(config)
    return config


def _of(ops: dict[str, Any], asset: str) -> dict[str, Any]:
    """Return an asset's part of a run config, which is made where it is missing."""
    return part_of(ops, asset, "config")


def _trainer(grpo: Mapping[str, Any], backend: str) -> tuple[str, dict[str, Any]]:
    """Return the backend and its settings: those of the config if it is for the same backend."""
    given = grpo.get("trainer") or {}
    chosen = backend or next(iter(given), "trl")
    if chosen not in BACKENDS:
        raise Text2SqlError(f"There is no trainer '{chosen}': use {', '.join(BACKENDS)}.")
    return chosen, dict(given.get(chosen) or {})


def _value(text: str) -> Any:
    """Read a number, true, false or null; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def trainer_of(config: Mapping[str, Any]) -> TrainerConfig:
    """Return the trainer of a run config with all its settings.

    Raises Text2SqlError for a trainer or setting that there is not, and for a refused value.
    """
    given = config["ops"]["grpo_policy"]["config"]["trainer"]
    if not isinstance(given, dict) or len(given) != 1 or not set(given) <= set(BACKENDS):
        raise Text2SqlError(f"The trainer is {given!r}: give one of {', '.join(BACKENDS)}.")
    backend, settings = next((name, values or {}) for name, values in given.items())
    known = [name for name in BACKENDS[backend].model_fields if name != "backend"]
    if unknown := [name for name in settings if name not in known]:
        raise Text2SqlError(f"{backend} has no setting '{unknown[0]}': it has {', '.join(known)}.")
    given = resolved(settings)
    try:
        return BACKENDS[backend](**given)
    except InvalidValue as error:
        raise Text2SqlError(f"{backend}: {error}") from error


def start_of(config: Mapping[str, Any]) -> str:
    """Return what the run starts from, as its config says."""
    return str(config["ops"]["grpo_policy"]["config"].get("start_from", FROM_BASE))


def _validate(config: Mapping[str, Any]) -> None:
    from pipelines.definitions import defs

    try:
        dg.validate_run_config(defs.resolve_job_def("training"), config)
    except dg.DagsterInvalidConfigError as error:
        raise Text2SqlError(
            f"The run config is wrong: {refused_config(error.errors[0].message)}."
        ) from error


def require_free(root: Path, run: str, trainer: TrainerConfig, start: StartPolicy) -> None:
    """Refuse the name of a run that is there already with other settings or another start."""
    before = run_state(root, run)
    if not before:
        return
    if before.get("backend") not in BACKENDS:
        raise Text2SqlError(f"The training run {run} was trained elsewhere: choose another name.")
    earlier = BACKENDS[before["backend"]](**before["settings"])
    found = identity_settings(before["backend"], earlier) | _start(before["start"])
    wanted = identity_settings(trainer.backend, trainer) | _start(
        {"from": start.name, "training_run": start.training_run}
    )
    found |= {"trainer": before["backend"]}
    wanted |= {"trainer": trainer.backend}
    names = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    if names:
        told = ", ".join(f"{n}: {found.get(n)} there, {wanted.get(n)} here" for n in names)
        raise Text2SqlError(
            f"The training run {run} is there already with other settings ({told}): choose "
            "another name."
        )


def _start(start: Mapping[str, Any]) -> dict[str, Any]:
    run = start.get("training_run")
    return {"starts from": f"{start.get('from')} ({run})" if run else start.get("from")}


def describe(trainer: TrainerConfig) -> str:
    """Say which trainer it is and which of its settings are not the defaults."""
    given = trainer.model_dump(exclude={"backend"})
    defaults = {name: type(trainer).model_fields[name].default for name in given}
    told = ", ".join(f"{name} {value}" for name, value in given.items() if value != defaults[name])
    kind = "TRL in one process" if isinstance(trainer, TrlConfig) else "prime-rl on GPUs"
    return f"{trainer.backend} ({kind}); {told or 'all settings as by default'}"
