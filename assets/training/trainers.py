"""The trainers that a run can choose: their settings, and the child programs that they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from assets.data.stored import load_golds, load_questions
from resources.forms import Form
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.trainer import Program
from text2sql.common.checkout import CHECKOUT
from text2sql.common.json_files import write_json, write_rows
from text2sql.errors import Text2SqlError
from text2sql.policy.weights import is_adapter
from text2sql.training.difficulty import usable
from text2sql.training.prime_rl.installed import package
from text2sql.training.prime_rl.settings import OPERATIONAL, SingleNode, SlurmNodes, TwoGpusLora

PRIME_RL_GRACE_SECONDS = 120.0
"""prime-rl ends its servers one after the other, which takes half a minute."""

_CHANGEABLE = ("steps", "learning_rate")
_FRESH = Field(
    default=False,
    description="Discard what an earlier attempt left; otherwise the run goes on from its last "
    "complete checkpoint, also with other steps or another learning rate.",
)


class TrlConfig(Form):
    """GRPO with TRL in one process: a small policy on a CPU or on one GPU."""

    backend: Literal["trl"] = "trl"
    steps: int = Field(default=60, ge=1, le=100_000, description="Optimizer steps.")
    groups_per_step: int = Field(default=16, ge=1, le=4096, description="Prompts in each step.")
    group_size: int = Field(default=8, ge=2, le=128, description="Rollouts of each prompt.")
    learning_rate: float = Field(
        default=1.5e-4,
        gt=0,
        le=1e-2,
        description="Learning rate after the warm-up. In YAML, 1e-4 is a text: write 0.0001.",
    )
    seed: int = Field(
        default=1, ge=0, description="Seed of the order of prompts and of the sampling."
    )
    threads: int = Field(default=2, ge=1, le=256, description="CPU threads.")
    save_every: int = Field(default=10, ge=1, description="Steps between two checkpoints.")
    shuffle_rewards: bool = Field(
        default=False, description="A control: rewards are dealt at random, so nothing is learnt."
    )


class PrimeRlConfig(Form, SingleNode):
    """GRPO with prime-rl on the GPUs of one machine, all weights: 8 GPUs for a 9B model."""

    backend: Literal["prime_rl"] = "prime_rl"
    fresh: bool = _FRESH


class PrimeRlLoraConfig(Form, TwoGpusLora):
    """GRPO with prime-rl on two GPUs of 80 GB: an adapter instead of all weights."""

    backend: Literal["prime_rl_lora"] = "prime_rl_lora"
    fresh: bool = _FRESH


class PrimeRlSlurmConfig(Form, SlurmNodes):
    """GRPO with prime-rl on several machines of a Slurm cluster, all weights."""

    backend: Literal["prime_rl_slurm"] = "prime_rl_slurm"
    fresh: bool = _FRESH


TrainerConfig = TrlConfig | PrimeRlConfig | PrimeRlLoraConfig | PrimeRlSlurmConfig
BACKENDS: dict[str, type[TrainerConfig]] = {
    kind.model_fields["backend"].default: kind for kind in get_args(TrainerConfig)
}
KEPT = "prompts"
"""The folder below a run's with the prompts that it learns from."""
PRESET_OF = {"prime_rl": "8gpu", "prime_rl_lora": "2gpu-lora", "prime_rl_slurm": "slurm"}
"""The presets of prime-rl's backends."""


def chosen(config: TrainerConfig) -> dict[str, Any]:
    """Return all settings that shape the result."""
    hidden = {"backend", "fresh"}
    return config.model_dump(
        exclude=hidden if isinstance(config, TrlConfig) else hidden | OPERATIONAL
    )


def lasting(config: TrainerConfig) -> dict[str, Any]:
    """Return the settings that make it the same training run when it goes on.

    With prime-rl a run may go on with other steps or another learning rate, and carried out in
    another way (ports, time limit, checkpoints kept); what TRL trained with other settings is
    another run.
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
    prompts with their gold results that are kept in ``folder``, appends to ``metrics.jsonl`` and
    leaves the trained policy in ``policy``.
    """
    base = _weights(policy, start)
    _require_evaluable(config, policy)
    prompts = (folder / KEPT).resolve()
    paths = {
        "policy_dir": str(base.resolve()),
        "prompts": str(prompts / "prompts.jsonl"),
        "golds": str(prompts / "golds.jsonl"),
        "output_dir": str(folder.resolve()),
    }
    reads = (base.resolve(), prompts)
    if isinstance(config, TrlConfig):
        file = write_json(folder / "config.json", paths | chosen(config) | {"resume": True})
        return Program(
            [sys.executable, "-m", "text2sql.training.trl.train", str(file)], reads=reads
        )
    plan = _evaluation_files(root, folder) | {
        "preset": PRESET_OF[config.backend],
        "settings": config.model_dump(exclude={"backend", "fresh"}),
        "agent": policy.settings(start).to_dict(),
        "package": str(CHECKOUT),
        "code": package()["code"],
        "fresh": config.fresh,
    }
    file = write_json(folder / "config.json", paths | plan)
    command = [sys.executable, "-m", "text2sql.training.prime_rl.launch", str(file)]
    if isinstance(config, PrimeRlSlurmConfig):
        return Program(command, PRIME_RL_GRACE_SECONDS, reads=reads, submits=True)
    gpus = config.train_gpus + config.inference_gpus
    return Program(command, PRIME_RL_GRACE_SECONDS, gpus, reads)


def _weights(policy: PolicyResource, start: str | None) -> Path:
    """Return the directory of the weights that a run starts from; an adapter's are none."""
    base = policy.directory(start)
    if base is None:
        raise Text2SqlError(
            f"The policy {start or policy.base} is a server or on the hub: training needs its "
            "model's directory; fetch it with hf download and name the directory."
        )
    if is_adapter(base):
        raise Text2SqlError(
            f"{base} is an adapter, and training starts from all weights of a model: start from "
            "base, or from a run that trained all weights."
        )
    return base


def _require_evaluable(config: TrainerConfig, policy: PolicyResource) -> None:
    """Refuse to train an adapter that the steps after the training could not serve."""
    if isinstance(config, TrlConfig) or not config.lora_rank or policy.server == "vllm":
        return
    raise Text2SqlError(
        "An adapter can only be evaluated through vLLM: set the policy's server to vllm, or train "
        "all weights (the trainer prime_rl, lora_rank 0)."
    )


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
