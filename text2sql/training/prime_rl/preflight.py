"""The checks before a run with prime-rl starts; each failure says what to do about it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.common.processes import without_colors
from text2sql.errors import Text2SqlError
from text2sql.policy.vllm.gpu import Gpu, require_memory, visible_gpus
from text2sql.policy.weights import require_whole
from text2sql.training.prime_rl import checkout
from text2sql.training.prime_rl.settings import LaunchPlan, PrimeRlSettings, SingleNode
from text2sql.training.prime_rl.slurm import require_slurm
from text2sql.training.prime_rl.toml import WRITTEN_FOR, Table, write_toml
from text2sql.training.prompts import read_prompts


def preflight(
    settings: PrimeRlSettings, plan: LaunchPlan, config: Table, say: Callable[[str], None]
) -> dict[str, str]:
    """Check everything that the run needs; return what is installed. ``say`` gets findings.

    Cheap checks come first, prime-rl's own dry run last. Raises Text2SqlError on the first failure.
    """
    directory = checkout.require_prime_rl()
    needed = settings.prompts_per_step
    questions, _ = read_prompts(plan.prompts, plan.golds, needed, "prompts_per_step")
    say(f"{counted(len(questions), 'prompt')} in {plan.prompts}.")
    say(_check_disk(settings, plan))
    say(_check_machine(settings) if isinstance(settings, SingleNode) else require_slurm())
    commit = checkout.prime_rl_commit(directory)
    other = "" if commit == WRITTEN_FOR else f", but the settings are for {WRITTEN_FOR[:8]}"
    say(f"prime-rl is at {commit}{other}.")
    environment = checkout.check_environment(directory)
    say(f"The environment is text2sql {environment['version']} in {environment['folder']}.")
    say(dry_run(config, directory))
    return {
        "prime-rl commit": commit,
        "environment": f"text2sql {environment['version']}",
        "environment code": environment["code"],
    }


def dry_run(config: Table, directory: Path) -> str:
    """Have prime-rl validate a configuration and return what it printed; needs no GPU.

    Raises Text2SqlError with prime-rl's own words if it rejects the configuration.
    """
    # An output directory of its own: a dry run writes there, and cleans it up first.
    with tempfile.TemporaryDirectory(prefix="text2sql-dry-run-") as folder:
        file = Path(folder) / "rl.toml"
        write_toml(config | {"output_dir": f"{folder}/runs"}, file)
        try:
            done = subprocess.run(
                [str(checkout.rl_program(directory)), "@", str(file), "--dry-run"],
                cwd=directory,
                env=checkout.rl_environment(directory),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=600.0,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Text2SqlError(f"prime-rl's dry run failed: {error}.") from error
    output = without_colors(done.stdout.decode("utf-8", errors="replace")).strip()[-4000:]
    if done.returncode != 0:
        raise Text2SqlError(
            f"prime-rl rejects the configuration (status {done.returncode}):\n{output}"
        )
    return output


def require_installed(settings: PrimeRlSettings) -> None:
    """Raise Text2SqlError if prime-rl, its environment or GPUs are missing on this machine."""
    directory = checkout.require_prime_rl()
    if isinstance(settings, SingleNode):  # a Slurm job installs the environment itself
        require_gpus(settings)
        checkout.check_environment(directory)


def require_gpus(settings: SingleNode) -> Sequence[Gpu]:
    """Return the visible GPUs; raises Text2SqlError if they are too few."""
    gpus, needed = visible_gpus(), settings.inference_gpus + settings.train_gpus
    if len(gpus) < needed:
        raise Text2SqlError(
            f"The run needs {counted(needed, 'GPU')}, but {len(gpus)} can be seen: set train_gpus "
            "and inference_gpus lower, choose prime_rl_lora for 2 GPUs, or let "
            "CUDA_VISIBLE_DEVICES show more."
        )
    return gpus


def _check_machine(settings: SingleNode) -> str:
    """Check the ports and the GPUs' memory; return which GPUs this machine has."""
    for name in ("router_port", "engine_port", "environment_port"):
        port = getattr(settings, name)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                raise Text2SqlError(
                    f"Port {port} ({name}) is in use: one run fits on a machine; stop the program "
                    f"that uses it (ss -ltnp shows it), or set {name}."
                ) from error
    gpus = require_gpus(settings)
    require_memory(gpus, settings.inference_gpus + settings.train_gpus, settings.gpu_memory)
    return f"GPUs: {', '.join(f'{gpu.index} {gpu.name}' for gpu in gpus)}."


def disk_bytes(settings: PrimeRlSettings, weights: int) -> int:
    """Return the disk space that a run fills: checkpoints and versions of the weights.

    While a checkpoint is written, one more exists than are kept; weights stay with each
    checkpoint, and two more are in transit.
    """
    checkpoints = settings.checkpoints_kept + 1
    if settings.lora_rank:
        return checkpoints * 2 * weights  # each at most the frozen weights, in float32
    # 6 times the bf16 weights are the weights and two moments in float32.
    return (checkpoints * 6 + settings.checkpoints_kept + 2) * weights


def _check_disk(settings: PrimeRlSettings, plan: LaunchPlan) -> str:
    """Check the base model and the space for the run; return how much there is."""
    model = Path(plan.policy_dir)
    weights = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    if not weights or not (model / "config.json").is_file():
        raise Text2SqlError(
            f"The base model {model} is not a directory with config.json and *.safetensors: "
            f"download it with hf download {model} --local-dir DIRECTORY and name the directory."
        )
    require_whole(model)
    needed = disk_bytes(settings, weights)
    place = plan.output_dir
    while not place.exists():
        place = place.parent
    earlier = [file for file in plan.run_dir.rglob("*") if not file.is_dir()]
    free = shutil.disk_usage(place).free + sum(file.lstat().st_size for file in earlier)
    space = f"{free / 1e9:.1f} GB of disk for the run, which needs about {needed / 1e9:.1f} GB"
    if free < needed:
        raise Text2SqlError(
            f"{plan.output_dir} has {space}: free some, set checkpoints_kept lower, or put the "
            "artifact root on a larger disk."
        )
    return f"{space}."
