"""LoRA adapters: weights that mean something only beside the model that they were trained on.

An adapter's directory holds ``adapter_model.safetensors`` and ``adapter_config.json`` in PEFT's
format, and ``training.json``, which names the base model and its revision.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError

WEIGHTS, CONFIG, RECORD = "adapter_model.safetensors", "adapter_config.json", "training.json"
BASE_NAME = "base"
"""What the base model is called on a server that serves it beside an adapter."""

_VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vLLM takes these as the highest rank


@dataclass(frozen=True)
class Adapter:
    """An adapter and the directory of its base model; ``rank`` is that of its matrices."""

    directory: Path
    base: Path
    base_revision: str
    rank: int

    def vllm_arguments(self, name: str) -> list[str]:
        """Return what makes vLLM, serving the base model, also serve this as ``name``."""
        rank = next((one for one in _VLLM_RANKS if one >= self.rank), self.rank)
        flags = ["--enable-lora", "--max-lora-rank", str(rank)]
        return [*flags, "--lora-modules", f"{name}={self.directory}"]


def is_adapter(directory: Path) -> bool:
    """Say whether a directory holds an adapter and no model."""
    return (directory / CONFIG).is_file() and not (directory / "config.json").exists()


def read_adapter(directory: Path) -> Adapter | None:
    """Return a directory's adapter; None where it holds a model or nothing.

    Raises Text2SqlError for an adapter that does not say what it was trained on.
    """
    if not is_adapter(directory):
        return None
    config, record = read_object(directory / CONFIG), read_object(directory / RECORD)
    try:
        base, revision, rank = record["base"], record["base_revision"], config["r"]
        return Adapter(directory, Path(base), str(revision), int(rank))
    except (KeyError, TypeError, ValueError) as error:
        raise Text2SqlError(
            f"{directory} is an adapter without its base model: {RECORD} must have base and "
            f"base_revision, {CONFIG} must have r ({error!r})."
        ) from error
