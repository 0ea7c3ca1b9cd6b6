"""The files of a model directory: whether they are complete, their revision, and LoRA adapters.

The weights of an adapter mean something only beside the model that they were trained on. Its
directory has ``adapter_model.safetensors`` and ``adapter_config.json`` in PEFT's format, and
``training.json``, which names the base model and its revision.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.files import GIT_LFS
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError

INDEX = "model.safetensors.index.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_RECORD = "training.json"
BASE_NAME = "base"
"""The base model's name on a server that serves it beside an adapter."""

TOKENIZER_FILES = (
    *("tokenizer*", "vocab*", "merges.txt"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template*"),
)
"""Patterns of the files that say how a model directory reads and writes text, whatever its kind."""

_REVISION_FILES = (
    *("*.safetensors", "config.json", *TOKENIZER_FILES),
    *("generation_config.json", "agent_config.json", ADAPTER_CONFIG),
)
_MAX_HEADER = 100_000_000
_VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # the maximum ranks that vLLM accepts


@dataclass(frozen=True)
class Adapter:
    """An adapter and the directory of its base model; ``rank`` is that of its matrices."""

    directory: Path
    base: Path
    base_revision: str
    rank: int

    def vllm_arguments(self, name: str) -> list[str]:
        """Return the arguments with which vLLM serves this as ``name`` beside the base model."""
        rank = next((one for one in _VLLM_RANKS if one >= self.rank), self.rank)
        flags = ["--enable-lora", "--max-lora-rank", str(rank)]
        return [*flags, "--lora-modules", f"{name}={self.directory}"]


def is_adapter(directory: Path) -> bool:
    """Say whether a directory holds an adapter and no model."""
    return (directory / ADAPTER_CONFIG).is_file() and not (directory / "config.json").exists()


def read_adapter(directory: Path) -> Adapter | None:
    """Return a directory's adapter, None without one; raises Text2SqlError without a base model."""
    if not is_adapter(directory):
        return None
    config = read_object(directory / ADAPTER_CONFIG)
    record = read_object(directory / ADAPTER_RECORD)
    try:
        base, revision, rank = record["base"], record["base_revision"], config["r"]
        return Adapter(directory, Path(base), str(revision), int(rank))
    except (KeyError, TypeError, ValueError) as error:
        raise Text2SqlError(
            f"{directory} is an adapter without its base model: {ADAPTER_RECORD} must have base "
            f"and base_revision, {ADAPTER_CONFIG} must have r ({error!r})."
        ) from error


def directory_revision(path: Path | str) -> str:
    """Return 16 hex digits that change when the replies of a model directory could.

    They are from the SHA-256 of the names and bytes of weights, configuration, tokenizer, chat
    template and agent settings. Logs, optimizer states and notes do not count; for an adapter the
    base model's revision does, as it was during training. Raises Text2SqlError without weights.
    """
    folder = Path(path)
    files = {f for pattern in _REVISION_FILES for f in folder.glob(pattern) if f.is_file()}
    if not any(file.suffix == ".safetensors" for file in files):
        raise Text2SqlError(
            f"{folder} {'has no *.safetensors weights' if folder.is_dir() else 'does not exist'}; "
            "give a Hugging Face model directory."
        )
    adapter = read_adapter(folder)
    total = hashlib.sha256(f"{adapter.base_revision}\0".encode() if adapter else b"")
    for file in sorted(files, key=lambda file: file.name):
        # Names and sizes keep bytes that move from one file to the next from hashing alike.
        total.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()[:16]


def require_whole(directory: Path) -> None:
    """Raise Text2SqlError if a shard that the index names is missing or a file is incomplete."""
    named = shards(directory / INDEX) if (directory / INDEX).is_file() else set()
    for name in sorted(named | {file.name for file in directory.glob("*.safetensors")}):
        if not (directory / name).is_file():
            raise Text2SqlError(
                f"{directory} lacks {name}, which {INDEX} names: copy the rest of the model there."
            )
        tensors(directory / name)


def shards(index: Path) -> set[str]:
    """Return the names of the files that an index names; raises Text2SqlError if it is invalid."""
    files = read_object(index).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise Text2SqlError(f"{index} does not map tensors to files: download the model again.")
    return set(files.values())


def tensors(file: Path) -> list[str]:
    """Return the names of the tensors in a safetensors file, without loading them.

    Raises Text2SqlError if it is incomplete. Format: https://huggingface.co/docs/safetensors
    """
    try:
        with file.open("rb") as stream:
            first = stream.read(8)
            if GIT_LFS.startswith(first) and first:
                raise ValueError("it is a Git LFS pointer; git lfs pull downloads the file")
            (length,) = struct.unpack("<Q", first)
            if length > _MAX_HEADER:
                raise ValueError(f"its header would be {length} bytes long")
            header = json.loads(stream.read(length))
            header.pop("__metadata__", None)
            end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
            size = stream.seek(0, os.SEEK_END)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise Text2SqlError(
            f"{file} cannot be read as safetensors ({error}): download it again."
        ) from error
    if size != 8 + length + end:
        raise Text2SqlError(
            f"{file} is {size} bytes long; its header says {8 + length + end}: download it again."
        )
    return list(header)
