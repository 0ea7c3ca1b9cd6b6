"""The revision of a policy directory: a hash that changes when its answers could."""

from __future__ import annotations

import hashlib
from pathlib import Path

from text2sql.errors import Text2SqlError
from text2sql.policy.adapter import CONFIG, read_adapter

TOKENIZER_FILES = (
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
)
"""Patterns of the files that say how a model directory reads and writes text, whatever its kind."""
_PATTERNS = (
    "*.safetensors",
    "config.json",
    *TOKENIZER_FILES,
    "generation_config.json",
    "agent_config.json",
    CONFIG,
)


def directory_revision(path: Path | str) -> str:
    """Return 16 hex digits of the SHA-256 over the names and bytes of what shapes the replies.

    Weights, configuration, tokenizer, chat template and agent settings count; logs, optimizer
    states and notes beside them do not. Of an adapter the revision of its base model counts too,
    as it was when the adapter was trained. Raises Text2SqlError where there are no weights.
    """
    folder = Path(path)
    files = {file for pattern in _PATTERNS for file in folder.glob(pattern) if file.is_file()}
    if not any(file.suffix == ".safetensors" for file in files):
        raise Text2SqlError(
            f"{folder} holds no *.safetensors weights; give a Hugging Face model directory."
        )
    adapter = read_adapter(folder)
    total = hashlib.sha256(f"{adapter.base_revision}\0".encode() if adapter else b"")
    for file in sorted(files, key=lambda file: file.name):
        total.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        _add_bytes(total, file)
    return total.hexdigest()[:16]


def _add_bytes(total: hashlib._Hash, file: Path) -> None:
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            total.update(block)
