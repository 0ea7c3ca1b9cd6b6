"""Load a Hugging Face model directory, or say in a sentence why it cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.json_files import read_if_there
from text2sql.errors import Text2SqlError
from text2sql.policy.weights import ADAPTER_WEIGHTS, INDEX, require_whole

_SMALL = 50_000_000  # parameters
_FEWEST_TOKENS = 2  # for a directory without a tokenizer transformers makes up a smaller one
_TOO_LONG = "sequence-length-is-longer-than-the-specified-maximum"


def load_model(directory: Path, threads: int | None = None) -> tuple[Any, Any]:
    """Return the causal language model in single precision on the CPU, and its tokenizer.

    ``threads`` sets how many CPU threads torch uses, in the whole process; None is one for a
    small model, which more would slow down, and torch's setting for others. Nothing is
    downloaded. Raises Text2SqlError if the extra ``local`` is not installed or the directory has
    no model that can be run and trained here.
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
    with _reasons(f"The tokenizer in {directory} could not be loaded"):
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    with _reasons(f"{directory} could not be loaded as a model"):
        found: Any = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype=torch.float32,
            attn_implementation="sdpa",
            local_files_only=True,
            ignore_mismatched_sizes=True,  # _require_weights names them
            output_loading_info=True,
        )
    model, loaded = found
    _require_weights(directory, model, loaded)
    _require_supported(directory, model, tokenizer)
    tokenizer.deprecation_warnings[_TOO_LONG] = True  # the policy reports it itself
    if threads is None and model.num_parameters() < _SMALL:
        threads = 1
    if threads:
        torch.set_num_threads(threads)
    return model.eval(), tokenizer


def _require_files(directory: Path) -> None:
    files = {file.name for file in directory.glob("*.safetensors")} - {ADAPTER_WEIGHTS}
    if not files and (directory / ADAPTER_WEIGHTS).is_file():
        raise Text2SqlError(
            f"{directory} has an adapter's weights and a config.json, but no model's: merge the "
            "adapter into its base model, or serve it with text2sql serve, without config.json."
        )
    has_config = (directory / "config.json").is_file()
    if not (files and has_config):
        lacking = "weights (*.safetensors)" if has_config else "config.json"
        raise Text2SqlError(
            f"{directory} is not a model directory: it has no {lacking}; "
            "give a Hugging Face directory with weights and tokenizer."
        )
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        read_if_there(directory / name, "Download the model again.")
    if "model.safetensors" not in files and not (directory / INDEX).is_file():
        raise Text2SqlError(
            f"{directory} has {min(files)} but neither model.safetensors nor {INDEX}, which maps "
            "tensors to files: copy the rest of the model there."
        )
    require_whole(directory)


@contextmanager
def _reasons(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise Text2SqlError(f"{what}: {lines[0]}") from error


def _require_weights(directory: Path, model: Any, loaded: dict[str, Any]) -> None:
    """Refuse weights that transformers would draw at random, and those that are not numbers."""
    for key, what in (("missing_keys", "lacks"), ("mismatched_keys", "has in another shape")):
        names = sorted(entry if isinstance(entry, str) else entry[0] for entry in loaded[key])
        if names:
            raise Text2SqlError(
                f"{directory} {what} {names[0]}, one of {counted(len(names), 'tensor')} of the "
                "model that config.json describes: get weights and config.json of one model."
            )
    broken = [name for name, value in model.named_parameters() if not value.isfinite().all()]
    if broken:
        raise Text2SqlError(
            f"{directory} has weights that are not finite numbers ({broken[0]}): use an earlier "
            "checkpoint, or download the model again."
        )


def _require_supported(directory: Path, model: Any, tokenizer: Any) -> None:
    if len(tokenizer) < _FEWEST_TOKENS:
        raise Text2SqlError(
            f"{directory} has no tokenizer; copy tokenizer.json of the model there."
        )
    if not stop_tokens(model, tokenizer):
        raise Text2SqlError(
            f"{directory} does not say which token ends a reply: set eos_token_id in "
            "generation_config.json."
        )
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
