"""The trainers that a run can choose: their settings, and the child programs that they are."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from assets.data import load_golds, load_questions, write_json, write_rows
from assets.difficulty import prompts_folder
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from text2sql.difficulty import usable
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.settings import SingleNode, TwoGpusLora

PRIME_RL_GRACE_SECONDS = 120.0
"""prime-rl ends its servers one after the other, which takes half a minute."""

_CHANGEABLE = ("steps", "learning_rate")
_FRESH = Field(
    default=False,
    description="Discard what an earlier attempt left; otherwise the run goes on from its last "
    "complete checkpoint, also with other steps or another learning rate.",
)


class TrlConfig(dg.Config):
    """GRPO with TRL in one process: a small policy on a CPU or on one GPU."""

    backend: Literal["trl"] = "trl"
    steps: int = Field(default=60, ge=1, le=100_000, description="Optimizer steps.")
    groups_per_step: int = Field(default=16, ge=1, le=4096, description="Prompts a step.")
    group_size: int = Field(default=8, ge=2, le=128, description="Rollouts a prompt.")
    learning_rate: float = Field(default=1.5e-4, gt=0, le=1e-2, description="After the warm-up.")
    seed: int = Field(default=1, ge=0, description="Of the order of prompts and of the sampling.")
    threads: int = Field(default=2, ge=1, le=256, description="CPU threads.")
    save_every: int = Field(default=10, ge=1, description="Steps between two checkpoints.")
    shuffle_rewards: bool = Field(
        default=False, description="A control: rewards are dealt at random, so nothing is learnt."
    )


class PrimeRlConfig(dg.Config, SingleNode):
    """GRPO with prime-rl on the GPUs of one machine, all weights: 8 GPUs for a 9B model."""

    backend: Literal["prime_rl"] = "prime_rl"
    fresh: bool = _FRESH


class PrimeRlLoraConfig(dg.Config, TwoGpusLora):
    """GRPO with prime-rl on two GPUs of 80 GB: an adapter instead of all weights."""

    backend: Literal["prime_rl_lora"] = "prime_rl_lora"
    fresh: bool = _FRESH


TrainerConfig = TrlConfig | PrimeRlConfig | PrimeRlLoraConfig


@dataclass(frozen=True)
class Program:
    """A training program; ``grace_seconds`` is how long it may take to end when asked to."""

    command: list[str]
    grace_seconds: float | None = None


def chosen(config: TrainerConfig) -> dict[str, Any]:
    """Return all settings that shape the result."""
    return config.model_dump(exclude={"backend", "fresh"})


def lasting(config: TrainerConfig) -> dict[str, Any]:
    """Return the settings that make it the same training run when it goes on.

    With prime-rl a run may go on with other steps or another learning rate; what TRL trained
    with other settings is another run.
    """
    settings = chosen(config)
    if isinstance(config, TrlConfig):
        return settings
    kept = {name: value for name, value in settings.items() if name not in _CHANGEABLE}
    return kept | {"backend": config.backend}


def make_program(
    config: TrainerConfig,
    policy: PolicyResource,
    root: ArtifactRoot,
    folder: Path,
    start: str | None = None,
) -> Program:
    """Write the child's configuration into ``folder``; return how it is started.

    Every program reads the directory of the policy ``start`` (None: the base policy) and the
    prompts with their gold results, appends to ``metrics.jsonl`` and leaves the trained policy
    in ``policy``.
    """
    base = policy.directory(start)
    if base is None:
        raise Text2SqlError(
            f"The policy {start or policy.base} is a server or on the hub: training needs its "
            "model's directory; fetch it with hf download and name the directory."
        )
    prompts = prompts_folder(root)
    paths = {
        "policy_dir": str(base.resolve()),
        "prompts": str(prompts.resolve() / "prompts.jsonl"),
        "golds": str(prompts.resolve() / "golds.jsonl"),
        "output_dir": str(folder.resolve()),
    }
    if isinstance(config, TrlConfig):
        file = write_json(folder / "config.json", paths | chosen(config) | {"resume": True})
        return Program([sys.executable, "-m", "text2sql.training.trl", str(file)])
    plan = _evaluation_files(root, folder) | {
        "preset": "2gpu-lora" if isinstance(config, PrimeRlLoraConfig) else "8gpu",
        "settings": chosen(config),
        "agent": policy.settings(start).to_dict(),
        "fresh": config.fresh,
    }
    file = write_json(folder / "config.json", paths | plan)
    command = [sys.executable, "-m", "text2sql.training.prime_rl.launch", str(file)]
    return Program(command, PRIME_RL_GRACE_SECONDS)


def _evaluation_files(root: ArtifactRoot, folder: Path) -> dict[str, str]:
    """Write the development questions that a run is evaluated on while it trains."""
    golds = load_golds(root.path, "dev")
    questions = [
        question for question in load_questions(root.path, "dev") if usable(question, golds)
    ]
    prompts = write_rows(folder / "dev_prompts.jsonl", (each.to_dict() for each in questions))
    rows = (golds[question.key].to_dict() for question in questions)
    results = write_rows(folder / "dev_golds.jsonl", rows)
    return {
        "evaluation_prompts": str(prompts.resolve()),
        "evaluation_golds": str(results.resolve()),
    }
