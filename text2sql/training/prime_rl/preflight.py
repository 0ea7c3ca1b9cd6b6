"""What must hold before a run with prime-rl is started; each lack says what to do about it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.policy.vllm.gpu import Gpu, require_memory, visible_gpus
from text2sql.policy.weights import require_whole
from text2sql.training.prime_rl.dry_run import dry_run
from text2sql.training.prime_rl.files import RunFiles, check_prompts
from text2sql.training.prime_rl.installed import check_environment, prime_rl_commit
from text2sql.training.prime_rl.program import PRIME_RL_VARIABLE, prime_rl_directory, rl_program
from text2sql.training.prime_rl.schema import MIRRORED, RlConfig
from text2sql.training.prime_rl.settings import PrimeRlSettings, SingleNode
from text2sql.training.prime_rl.slurm import require_slurm

_CHECKPOINT_SIZE = 6  # of the bf16 weights: weights and two moments in float32
_ADAPTER_CHECKPOINT_SIZE = 2  # at most the frozen weights, in float32


@dataclass(frozen=True)
class Found:
    """prime-rl's checkout and its commit, and the environment's package that it trains on."""

    directory: Path
    commit: str
    environment: str
    environment_code: str


def preflight(
    settings: PrimeRlSettings, files: RunFiles, config: RlConfig, say: Callable[[str], None]
) -> Found:
    """Return what was found once all is there that the run needs; ``say`` gets findings.

    Cheap checks come first, prime-rl's own dry run last. Raises Text2SqlError at what is lacking.
    """
    directory = require_prime_rl()
    say(f"{counted(check_prompts(settings, files), 'prompt')} in {files.prompts}.")
    say(_check_disk(settings, files))
    say(_check_machine(settings) if isinstance(settings, SingleNode) else require_slurm())
    commit = prime_rl_commit(directory)
    told = "" if commit == MIRRORED else f", not {MIRRORED[:8]}, which the settings are written for"
    say(f"prime-rl is at {commit}{told}.")
    environment = check_environment(directory)
    say(f"The environment is text2sql {environment['version']} in {environment['folder']}.")
    say(dry_run(config, directory))
    return Found(directory, commit, environment["version"], environment["code"])


def require_prime_rl() -> Path:
    """Return prime-rl's checkout; raises Text2SqlError where there is none, or no program in it."""
    directory = prime_rl_directory()
    if directory is None:
        raise Text2SqlError(f"{PRIME_RL_VARIABLE} is not set: let it name prime-rl's checkout.")
    rl_program(directory)
    return directory


def require_gpus(settings: SingleNode) -> Sequence[Gpu]:
    """Return the GPUs that can be seen; raises Text2SqlError where they are too few."""
    gpus, wanted = visible_gpus(), settings.inference_gpus + settings.train_gpus
    if len(gpus) < wanted:
        raise Text2SqlError(
            f"{counted(wanted, 'GPU is', 'GPUs are')} asked for and {len(gpus)} can be seen: set "
            "train_gpus and inference_gpus lower, choose prime_rl_lora for 2 GPUs, or let "
            "CUDA_VISIBLE_DEVICES show more."
        )
    return gpus


def _check_machine(settings: SingleNode) -> str:
    """Say which GPUs this machine has, once its ports and its GPUs' memory are free."""
    _check_ports(settings)
    gpus = require_gpus(settings)
    require_memory(gpus, settings.inference_gpus + settings.train_gpus, settings.gpu_memory)
    return f"GPUs: {', '.join(f'{gpu.index} {gpu.name}' for gpu in gpus)}."


def weight_bytes(model: Path) -> int:
    """Return the size of a model's weights; raises Text2SqlError where it is no whole model."""
    size = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    if not size or not (model / "config.json").is_file():
        raise Text2SqlError(
            f"The base model {model} is no directory with config.json and *.safetensors: fetch it "
            f"first, with hf download {model} --local-dir DIRECTORY, and name the directory."
        )
    require_whole(model)
    return size


def disk_bytes(settings: PrimeRlSettings, weights: int) -> int:
    """Return the disk that a run fills: checkpoints and versions of the weights for serving.

    One checkpoint more than are kept exists while it is written; weights stay with each
    checkpoint, and two more are on their way.
    """
    checkpoints = settings.checkpoints_kept + 1
    if settings.lora_rank:
        return checkpoints * _ADAPTER_CHECKPOINT_SIZE * weights
    return (checkpoints * _CHECKPOINT_SIZE + settings.checkpoints_kept + 2) * weights


def _check_disk(settings: PrimeRlSettings, files: RunFiles) -> str:
    needed = disk_bytes(settings, weight_bytes(Path(files.model)))
    place = files.output_dir
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free + _size(files.run_dir)
    said = f"{free / 1e9:.1f} GB of disk for the run, which needs about {needed / 1e9:.1f} GB"
    if free < needed:
        raise Text2SqlError(
            f"{files.output_dir} has {said}: free some, set checkpoints_kept lower, or put the "
            "artifact root on a larger disk."
        )
    return f"{said}."


def _size(folder: Path) -> int:
    """Return the bytes that an earlier attempt already holds."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def _check_ports(settings: PrimeRlSettings) -> None:
    ports = {
        "router_port": settings.router_port,
        "engine_port": settings.engine_port,
        "environment_port": settings.environment_port,
    }
    for name, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                raise Text2SqlError(
                    f"Port {port} ({name}) is in use: one run fits on a machine; end what holds "
                    f"it (ss -ltnp shows who), or set {name}."
                ) from error
