"""What starts vLLM: the interpreter of an environment of its own, arguments and variables."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.checkout import CHECKOUT
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.policy.open import API_KEY_VARIABLE
from text2sql.policy.vllm.options import PYTHON_VARIABLE, VllmOptions

HOST = "127.0.0.1"
INSTALL = "run 'make vllm' in the checkout (or 'make vllm-cpu' without a GPU)"
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VLLM_API_KEY")
"""Variables about this process's Python, and a key that no client knows."""

_PROBE_SECONDS = 120.0
_PROBE = """
import importlib.metadata as metadata, json
found = {}
for name in ("vllm", "vllm-cpu"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(frozen=True)
class VllmPython:
    """An interpreter and its vLLM: ``distribution`` is ``vllm`` or ``vllm-cpu``."""

    path: Path
    distribution: str
    version: str

    @property
    def cpu(self) -> bool:
        """Whether this vLLM computes on the CPU and needs no GPU."""
        return self.distribution == "vllm-cpu" or "cpu" in self.version.partition("+")[2]


def find_vllm(python: Path | str | None = None, gpu: bool = False) -> VllmPython:
    """Return the interpreter to start vLLM with.

    It is ``python``, else what the environment variable TEXT2SQL_VLLM_PYTHON names, else what
    the checkout's Makefile built: ``.venv-vllm`` with a ``gpu``, ``.venv-vllm-cpu`` without.
    Raises Text2SqlError if none is named, it does not run, or it has no vLLM.
    """
    path, source = _named(python, gpu)
    try:
        answer = subprocess.run(
            [path, "-I", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=True,
        )
        found = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Text2SqlError(
            f"{source} names {path}, which is not a working Python ({reason}): {INSTALL}."
        ) from error
    for name in ("vllm", "vllm-cpu"):
        if name in found:
            return VllmPython(path, name, str(found[name]))
    raise Text2SqlError(
        f"The Python of {source}, {path}, has no vLLM: {INSTALL}, and name that environment's "
        "interpreter."
    )


def _named(python: Path | str | None, gpu: bool) -> tuple[Path, str]:
    """Return the interpreter and where its name comes from."""
    if python:
        return Path(python).expanduser().absolute(), "the setting 'python'"
    if named := os.environ.get(PYTHON_VARIABLE):
        return Path(named).expanduser().absolute(), PYTHON_VARIABLE
    folder = CHECKOUT / (".venv-vllm" if gpu else ".venv-vllm-cpu")
    if (built := folder / "bin" / "python").exists():
        return built, f"the environment {folder.name}"
    raise Text2SqlError(
        f"No environment with vLLM is known: {INSTALL}, or name the Python of one that has it "
        f"with --python or the environment variable {PYTHON_VARIABLE}."
    )


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
    else:  # the command line of this build only works under the package's other name
        start = ["vllm.entrypoints.openai.api_server", "--model", target]
    thinks = directory is None or _thinks(directory)
    sees = directory is None or "vision_config" in read_object(directory / "config.json")
    memory = ["--gpu-memory-utilization", str(options.gpu_memory)]
    return [
        *(str(python.path), "-P", "-m", *start),
        *("--served-model-name", model, "--host", HOST, "--port", str(port)),
        *("--enable-auto-tool-choice", "--tool-call-parser", "qwen3_xml"),
        *(["--reasoning-parser", "qwen3"] if thinks else []),
        "--enable-prefix-caching",
        # The request alone decides the sampling, not the model's generation_config.json.
        *("--generation-config", "vllm", "--disable-uvicorn-access-log"),
        *(["--language-model-only"] if sees else []),
        *("--data-parallel-size", str(options.data_parallel_size)),
        *(["--enforce-eager", "--max-num-seqs", "16"] if python.cpu else memory),
        *options.extra_args,
    ]


def environment(python: VllmPython, *, offline: bool) -> dict[str, str]:
    """Return vLLM's environment: this one without another Python's variables and statistics."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    # vLLM compiles kernels while it starts, with the tools of its environment.
    kept["PATH"] = f"{python.path.parent}{os.pathsep}{kept.get('PATH', '')}"
    kept["VLLM_NO_USAGE_STATS"] = "1"
    if offline:
        kept["HF_HUB_OFFLINE"] = "1"
    if python.cpu:
        kept.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
    if key := kept.get(API_KEY_VARIABLE):
        kept["VLLM_API_KEY"] = key
    return kept


def _thinks(directory: Path) -> bool:
    """Say whether a chat template has thinking: else the parser takes all words for thoughts."""
    template = directory / "chat_template.jinja"
    if template.is_file():
        return "<think>" in template.read_text(encoding="utf-8")
    tokenizer = directory / "tokenizer_config.json"
    return tokenizer.is_file() and "<think>" in str(read_object(tokenizer).get("chat_template"))
