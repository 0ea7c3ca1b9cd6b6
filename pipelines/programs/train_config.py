"""The run config of a training run that is started from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assets.training.config import BACKENDS, TrainerConfig, TrlConfig, read_forms
from pipelines.config_errors import check_run_config
from resources.forms import InvalidValue
from resources.run_config import part_of, read_run_config
from text2sql.errors import Text2SqlError
from text2sql.training.backends import identity_settings
from text2sql.training.runs import FROM_BASE, StartPolicy, run_state
from text2sql.training.settings import resolved

STARTING = ("base_rollouts", "grpo_policy")
"""The assets whose config names the policy to start from."""


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


def training_config(request: Request) -> dict[str, Any]:
    """Return the run config; raise Text2SqlError if something in it is invalid."""
    from pipelines.definitions import defs

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
    check_run_config(defs.resolve_job_def("training"), config)
    read_forms(config)
    return config


def _of(ops: dict[str, Any], asset: str) -> dict[str, Any]:
    """Return an asset's part of a run config, which is added if it is missing."""
    return part_of(ops, asset, "config")


def _trainer(grpo: Mapping[str, Any], backend: str) -> tuple[str, dict[str, Any]]:
    """Return the backend and its settings: those of the config if it is for the same backend."""
    given = grpo.get("trainer") or {}
    chosen = backend or next(iter(given), "trl")
    if chosen not in BACKENDS:
        raise Text2SqlError(f"There is no trainer '{chosen}': use {', '.join(BACKENDS)}.")
    return chosen, dict(given.get(chosen) or {})


def _value(text: str) -> Any:
    """Return a number, true, false or null as JSON; anything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def trainer_of(config: Mapping[str, Any]) -> TrainerConfig:
    """Return the trainer of a run config with all its settings.

    Raises Text2SqlError for an unknown trainer or setting, and for an invalid value.
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


def require_free(root: Path, run: str, trainer: TrainerConfig, start: StartPolicy) -> None:
    """Refuse the name of an existing run that has other settings or another start."""
    before = run_state(root, run)
    if not before:
        return
    if before.get("backend") not in BACKENDS:
        raise Text2SqlError(f"The training run {run} was trained elsewhere: choose another name.")
    earlier = BACKENDS[before["backend"]](**before["settings"])
    found = identity_settings(before["backend"], earlier) | _start(before["start"])
    asked = identity_settings(trainer.backend, trainer) | _start(
        {"from": start.name, "training_run": start.training_run}
    )
    found |= {"trainer": before["backend"]}
    asked |= {"trainer": trainer.backend}
    names = [name for name in {**found, **asked} if found.get(name) != asked.get(name)]
    if names:
        differ = ", ".join(f"{n}: {found.get(n)}, not {asked.get(n)}" for n in names)
        raise Text2SqlError(
            f"The training run {run} exists with other settings ({differ}): choose another name."
        )


def _start(start: Mapping[str, Any]) -> dict[str, Any]:
    run = start.get("training_run")
    return {"starts from": f"{start.get('from')} ({run})" if run else start.get("from")}


def describe(trainer: TrainerConfig) -> str:
    """Return the trainer's name and those of its settings that are not the defaults."""
    given = trainer.model_dump(exclude={"backend"})
    defaults = {name: type(trainer).model_fields[name].default for name in given}
    changed = [f"{name} {value}" for name, value in given.items() if value != defaults[name]]
    kind = "TRL in one process" if isinstance(trainer, TrlConfig) else "prime-rl on GPUs"
    return f"{trainer.backend} ({kind}); {', '.join(changed) or 'default settings'}"
