"""From prime-rl's last weights to a verified directory that vLLM can serve."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from text2sql.agent.settings import CONFIG_NAME, AgentSettings
from text2sql.common.files import file_digest, whole_folder
from text2sql.common.json_files import read_object, write_json
from text2sql.errors import Text2SqlError
from text2sql.policy.weights import (
    ADAPTER_CONFIG,
    ADAPTER_RECORD,
    ADAPTER_WEIGHTS,
    INDEX,
    TOKENIZER_FILES,
    Adapter,
    directory_revision,
    tensors,
)
from text2sql.training.prime_rl.toml import LORA_NAME

_CONFIG = "config.json"
_FROM_BASE = (
    *TOKENIZER_FILES,
    "generation_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
)


def assemble(
    broadcast: Path,
    base: Path,
    target: Path,
    agent: AgentSettings,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the policy into ``target`` atomically; return its record.

    The weights come from ``broadcast`` (hard links, if the file system has them), everything else
    from the base model. An adapter is not a model by itself: its directory has no config.json, and
    its record has the ``vllm_arguments`` to serve it with its base model. The record is
    ``training.json``, with ``provenance`` as part of it. Raises Text2SqlError if a shard is
    missing, incomplete or differs from the index.
    """
    weights = verify_weights(broadcast)
    record: dict[str, Any] = {
        "step": int(broadcast.name.rpartition("_")[2]),
        "base": str(base),
        "base_revision": directory_revision(base),
        "sha256": weights,
    }
    copied: tuple[str, ...] = _FROM_BASE
    if ADAPTER_WEIGHTS in weights:
        rank = int(read_object(broadcast / ADAPTER_CONFIG).get("r", 16))
        adapter = Adapter(target, base, record["base_revision"], rank)
        record["vllm_arguments"] = adapter.vllm_arguments(LORA_NAME)
    else:
        copied = (_CONFIG, *_FROM_BASE)
        if not (base / _CONFIG).is_file():
            raise Text2SqlError(f"The base model {base} has no {_CONFIG}.")
    with whole_folder(target) as partial:
        for name in weights:
            try:
                os.link(broadcast / name, partial / name)
            except OSError:  # another file system, or one without hard links
                shutil.copyfile(broadcast / name, partial / name)
        for file in (file for pattern in copied for file in base.glob(pattern)):
            if file.is_file() and not (partial / file.name).exists():
                shutil.copyfile(file, partial / file.name)
        write_json(partial / CONFIG_NAME, agent.to_dict())
        record |= provenance or {}
        write_json(partial / ADAPTER_RECORD, record)  # an adapter's revision needs to know its base
        record["revision"] = directory_revision(partial)
        write_json(partial / ADAPTER_RECORD, record)
    return record


def verify_weights(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of the weights, including the index.

    Raises Text2SqlError if the folder is incomplete, if the index and the shards name different
    tensors, or if a shard is shorter than its header says.
    """
    if not (folder / "STABLE").is_file():
        raise Text2SqlError(f"{folder} has no STABLE: its weights are incomplete.")
    index = folder / INDEX
    if index.is_file():
        promised = read_object(index).get("weight_map", {})
        names = [INDEX, *sorted(set(promised.values()))]
        present = {tensor: name for name in names[1:] for tensor in tensors(folder / name)}
        if present != promised:
            odd = sorted(set(present.items()) ^ set(promised.items()))[0]
            raise Text2SqlError(f"{index} and its shards differ: {odd[0]} in {odd[1]}.")
    else:
        found = [file.name for file in sorted(folder.glob("*.safetensors"))]
        if found not in (["model.safetensors"], [ADAPTER_WEIGHTS]):
            raise Text2SqlError(f"{folder} has neither weights nor an index of them: {found}.")
        tensors(folder / found[0])
        names = found + ([ADAPTER_CONFIG] if found == [ADAPTER_WEIGHTS] else [])
    return {name: file_digest(folder / name) for name in names}
