"""What starts vLLM: its arguments and its environment."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.policy.open import API_KEY_VARIABLE
from text2sql.policy.vllm.interpreter import VllmPython

HOST = "127.0.0.1"
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VLLM_API_KEY")
"""What this process's environment says about another Python, and a key that no client knows."""


@dataclass(frozen=True)
class VllmOptions:
    """How a policy is served.

    ``python`` is the interpreter of an environment that has vLLM (see ``find_vllm``);
    ``data_parallel_size`` the number of copies of the model, each on GPUs of its own;
    ``gpu_memory`` the share of a GPU's memory that vLLM takes; ``ready_seconds`` how long
    starting may take; ``extra_args`` go to vLLM as they are, after all others.
    """

    python: Path | str | None = None
    data_parallel_size: int = 1
    gpu_memory: float = 0.9
    ready_seconds: float = 900.0
    extra_args: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """How many GPUs vLLM will use: copies times the GPUs that each is spread over.

        Raises Text2SqlError where ``extra_args`` spread a model over no number of GPUs.
        """
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
        parser.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
        try:
            known, _ = parser.parse_known_args(self.extra_args)
        except argparse.ArgumentError as error:
            raise Text2SqlError(f"The extra arguments for vLLM are wrong: {error}.") from error
        spread: int = known.tensor_parallel_size * known.pipeline_parallel_size
        return self.data_parallel_size * spread


def command(
    python: VllmPython,
    target: str,
    directory: Path | None,
    model: str,
    port: int,
    options: VllmOptions,
) -> list[str]:
    """Return the command that serves ``target``, a model ``directory`` or an id, as ``model``."""
    if python.distribution == "vllm":
        start = ["vllm.entrypoints.cli.main", "serve", target]
    else:  # the command line of this build looks for the package's other name
        start = ["vllm.entrypoints.openai.api_server", "--model", target]
    return [
        *(str(python.path), "-P", "-m", *start),
        *("--served-model-name", model, "--host", HOST, "--port", str(port)),
        *("--enable-auto-tool-choice", "--tool-call-parser", "qwen3_xml"),
        *(["--reasoning-parser", "qwen3"] if directory is None or _thinks(directory) else []),
        "--enable-prefix-caching",
        # Sampling is what the request says, not what the model's generation_config.json adds.
        *("--generation-config", "vllm", "--disable-uvicorn-access-log"),
        *(["--language-model-only"] if directory is None or _has_vision_part(directory) else []),
        *("--data-parallel-size", str(options.data_parallel_size)),
        *_device_flags(python, options),
        *options.extra_args,
    ]


def _device_flags(python: VllmPython, options: VllmOptions) -> list[str]:
    if python.cpu:
        return ["--enforce-eager", "--max-num-seqs", "16"]
    return ["--gpu-memory-utilization", str(options.gpu_memory)]


def environment(python: VllmPython, *, offline: bool) -> dict[str, str]:
    """Return vLLM's environment: this process's, without what it says about another Python.

    With ``offline`` the hub is not asked for anything. vLLM reports no usage to its makers.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    # What vLLM compiles while it starts needs the tools of its environment.
    kept["PATH"] = f"{python.path.parent}{os.pathsep}{kept.get('PATH', '')}"
    kept["VLLM_NO_USAGE_STATS"] = "1"
    if offline:
        kept["HF_HUB_OFFLINE"] = "1"
    if python.cpu:
        kept.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
    if key := kept.get(API_KEY_VARIABLE):
        kept["VLLM_API_KEY"] = key
    return kept


def _has_vision_part(directory: Path) -> bool:
    return "vision_config" in read_object(directory / "config.json")


def _thinks(directory: Path) -> bool:
    """Say whether a policy's chat template knows thinking.

    Of a policy that does not, vLLM's parser would take every word for a thought.
    """
    template = directory / "chat_template.jinja"
    if template.is_file():
        return "<think>" in template.read_text(encoding="utf-8")
    tokenizer = directory / "tokenizer_config.json"
    return tokenizer.is_file() and "<think>" in str(read_object(tokenizer).get("chat_template"))
