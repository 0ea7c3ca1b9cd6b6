"""The trainers: the settings of each backend, and the child program that trains with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.agent.settings import AgentSettings
from text2sql.common.checkout import CHECKOUT
from text2sql.common.json_files import write_json, write_rows
from text2sql.datasets.stored import load_golds, load_questions
from text2sql.errors import Text2SqlError
from text2sql.policy.weights import is_adapter
from text2sql.training.difficulty import usable
from text2sql.training.prime_rl.checkout import package
from text2sql.training.prime_rl.settings import (
    OPERATIONAL,
    LaunchPlan,
    PrimeRlSettings,
    SingleNode,
    SlurmNodes,
)
from text2sql.training.prompts import GOLDS, PROMPTS
from text2sql.training.trl.settings import GrpoRun, TrlSettings

BackendSettings = TrlSettings | PrimeRlSettings

PROMPTS_FOLDER = "prompts"
"""The folder, below a run's, of the prompts that it learns from."""


_OF_FORMS = {"backend", "fresh"}  # what the launchpad's forms add to the settings
_CHANGEABLE = {"steps", "learning_rate"}


@dataclass(frozen=True)
class Program:
    """A training program; ``grace_seconds`` is how long it may take to end when asked to.

    It appends a JSON object per step to ``metrics.jsonl`` in its folder and leaves the trained
    policy in ``policy``. A pod for it needs ``gpus`` and mounts of what it ``reads``; a program
    that ``submits`` a cluster job has to run beside the step that starts it.
    """

    command: Sequence[str]
    grace_seconds: float | None = None
    gpus: int = 0
    reads: tuple[Path, ...] = ()
    submits: bool = False


def result_settings(settings: BackendSettings) -> dict[str, Any]:
    """Return all settings that shape the result."""
    operational = OPERATIONAL if isinstance(settings, PrimeRlSettings) else frozenset()
    return settings.model_dump(exclude=_OF_FORMS | operational)


def identity_settings(backend: str, settings: BackendSettings) -> dict[str, Any]:
    """Return the settings that make it the same training run when it is resumed.

    A run with prime-rl may be resumed with other steps or another learning rate, and with other
    ports, time limits and so on; with TRL other settings make another run.
    """
    values = result_settings(settings)
    if isinstance(settings, TrlSettings):
        return values
    kept = {name: value for name, value in values.items() if name not in _CHANGEABLE}
    return kept | {"backend": backend}


def require_weights(directory: Path | None, policy: str) -> Path:
    """Return the directory of the weights that a run starts from; it must be a whole model.

    Raises Text2SqlError if ``policy`` is on a server or on the hub, or is an adapter.
    """
    if directory is None:
        raise Text2SqlError(
            f"The policy {policy} is a server or on the hub, but training needs a directory with "
            "its weights: download it with hf download and name the directory."
        )
    if is_adapter(directory):
        raise Text2SqlError(
            f"{directory} is an adapter, and training starts from all weights of a model: start "
            "from base, or from a run that trained all weights."
        )
    return directory.resolve()


def require_adapter_server(settings: PrimeRlSettings, server: str) -> None:
    """Raise Text2SqlError for an adapter that the steps after the training could not serve."""
    if settings.lora_rank and server != "vllm":
        raise Text2SqlError(
            "An adapter can only be evaluated through vLLM: set the policy's server to vllm, or "
            "train all weights (the trainer prime_rl, lora_rank 0)."
        )


def trl_program(settings: TrlSettings, weights: Path, folder: Path) -> Program:
    """Write the configuration of a run with TRL into ``folder``; return its program."""
    prompts = folder / PROMPTS_FOLDER
    run = GrpoRun(
        **result_settings(settings),
        policy_dir=weights,
        prompts=prompts / PROMPTS,
        golds=prompts / GOLDS,
        output_dir=folder,
    )
    file = write_json(folder / "config.json", run.model_dump(mode="json"))
    command = [sys.executable, "-m", "text2sql.training.trl.train", str(file)]
    return Program(command, reads=(weights, prompts))


def prime_rl_program(
    backend: str,
    settings: PrimeRlSettings,
    weights: Path,
    folder: Path,
    agent: AgentSettings,
    root: Path,
    fresh: bool,
) -> Program:
    """Write the plan of a run with prime-rl into ``folder``; return its program.

    Evaluations during the training ask the usable development questions below the artifact root.
    """
    prompts, golds = folder / PROMPTS_FOLDER, load_golds(root, "dev")
    asked = [question for question in load_questions(root, "dev") if usable(question, golds)]
    results = (golds[question.key].to_dict() for question in asked)
    plan = LaunchPlan(
        backend=backend,
        settings=settings.model_dump(exclude=_OF_FORMS),
        agent=agent.to_dict(),
        policy_dir=str(weights),
        prompts=prompts / PROMPTS,
        golds=prompts / GOLDS,
        output_dir=folder,
        package=CHECKOUT,
        code=package()["code"],
        fresh=fresh,
        evaluation_prompts=write_rows(
            folder / "dev_prompts.jsonl", (question.to_dict() for question in asked)
        ),
        evaluation_golds=write_rows(folder / "dev_golds.jsonl", results),
    )
    file = write_json(
        folder / "config.json", plan.model_dump(mode="json", exclude={"prime_rl_dir"})
    )
    command = [sys.executable, "-m", "text2sql.training.prime_rl.launch", str(file)]
    gpus = settings.train_gpus + settings.inference_gpus if isinstance(settings, SingleNode) else 0
    return Program(
        command,
        grace_seconds=120.0,  # it ends its servers one after the other, in half a minute
        gpus=gpus,
        reads=(weights, prompts),
        submits=isinstance(settings, SlurmNodes),
    )
