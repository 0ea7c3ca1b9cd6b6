"""Loading a Hugging Face model directory, with the reasons why one cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from text2sql.errors import Text2SqlError

_SMALL = 50_000_000  # parameters
_TOO_LONG = "sequence-length-is-longer-than-the-specified-maximum"


def load_model(directory: Path, threads: int | None = None) -> tuple[Any, Any]:
    """Return the causal language model in single precision on the CPU, and its tokenizer.

    ``threads`` sets how many CPU threads torch uses, in the whole process; None is one for a
    small model, which more would slow down, and torch's setting for others. Nothing is
    downloaded. Raises Text2SqlError where the extra ``local`` is not installed and where the
    directory holds no model that can be run and trained here.
    """
    _require_files(directory)
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise Text2SqlError(
            f"A policy in this process needs the extra 'local' ({error.name} is missing); "
            "run pip install 'text2sql-lifecycle[local]'."
        ) from error
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
        tokenizer.deprecation_warnings[_TOO_LONG] = True  # said already: the policy says it
        model = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True
        )
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise Text2SqlError(f"{directory} could not be loaded as a model: {lines[0]}") from error
    _require_supported(directory, model, tokenizer)
    if threads is None and model.num_parameters() < _SMALL:
        threads = 1
    if threads:
        torch.set_num_threads(threads)
    return model.eval(), tokenizer


def _require_files(directory: Path) -> None:
    if not (directory / "config.json").is_file():
        raise Text2SqlError(
            f"{directory} is not a model directory: it has no config.json; "
            "give a Hugging Face directory with weights and tokenizer."
        )
    if not any(directory.glob("*.safetensors")):
        raise Text2SqlError(
            f"{directory} could not be loaded as a model: it has no weights (*.safetensors); "
            "give a Hugging Face directory with weights and tokenizer."
        )


def _require_supported(directory: Path, model: Any, tokenizer: Any) -> None:
    if not tokenizer.chat_template:
        raise Text2SqlError(f"{directory} has no chat template; add a chat_template.jinja.")
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if others := sorted(kinds - {"full_attention"}):
        raise Text2SqlError(
            f"{directory} has layers of kind {', '.join(others)}, which cannot run in this "
            "process; serve it with vLLM and give the server's URL."
        )


def stop_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a turn."""
    declared = model.generation_config.eos_token_id
    tokens = [tokenizer.eos_token_id]
    tokens += declared if isinstance(declared, list) else [declared]
    return frozenset(token for token in tokens if token is not None)
