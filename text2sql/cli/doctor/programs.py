"""Programs with environments of their own: vLLM and prime-rl. Neither is ever imported."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from text2sql.cli.doctor.finding import Finding, State
from text2sql.errors import Text2SqlError
from text2sql.policy.vllm.gpu import visible_gpus
from text2sql.policy.vllm.interpreter import INSTALL, PYTHON_VARIABLE, find_vllm
from text2sql.training.prime_rl.checkout import PRIME_RL_VARIABLE, prime_rl_directory


def check_vllm() -> Iterable[Finding]:
    """Look for the environment that has vLLM, and ask its Python for the version."""
    gpus = bool(visible_gpus())
    try:
        found = find_vllm(gpu=gpus)
    except Text2SqlError as error:
        named = PYTHON_VARIABLE in os.environ
        found_out = str(error).partition(f": {INSTALL}")[0]
        yield Finding("vllm", State.FAIL if named else State.WARN, found_out, INSTALL)
        return
    text = f"{found.distribution} {found.version} ({found.path})"
    if gpus and found.cpu:
        yield Finding("vllm", State.WARN, f"{text} does not use the GPU", INSTALL)
    elif not gpus and not found.cpu:
        yield Finding("vllm", State.WARN, f"{text} needs a GPU, and none is there", INSTALL)
    else:
        yield Finding("vllm", State.OK, text)


def check_prime_rl() -> Iterable[Finding]:
    """Look for prime-rl's checkout, its commit, and the environment that it trains on."""
    directory = prime_rl_directory()
    if directory is None:
        yield Finding(
            "prime-rl",
            State.WARN,
            "not installed; GRPO runs on one machine, through TRL",
            "to train on GPUs, on Linux with at least two of them: install "
            "https://github.com/PrimeIntellect-ai/prime-rl at the commit and in the way that "
            f"docs/training.md says, and name its folder with {PRIME_RL_VARIABLE}",
        )
        return
    program = directory / ".venv" / "bin" / "rl"
    mend = f"run uv sync in it, or let {PRIME_RL_VARIABLE} name prime-rl's checkout"
    if not program.is_file():
        yield Finding("prime-rl", State.FAIL, f"{program} is not there", mend)
    elif shutil.which("uv") is None:
        mend = "install uv (pip install uv), which starts it"
        yield Finding("prime-rl", State.WARN, f"{program}, but there is no uv", mend)
    elif find_spec("pydantic") is None:
        mend = "pip install 'text2sql-lifecycle[pipelines]', which training needs"
        yield Finding("prime-rl", State.WARN, f"{program}, but no Dagster to start it", mend)
    else:
        yield _commit(directory)
        yield _environment(directory)


def _commit(directory: Path) -> Finding:
    """Compare prime-rl's commit with the one that the settings are written for."""
    from text2sql.training.prime_rl.checkout import prime_rl_commit
    from text2sql.training.prime_rl.toml import WRITTEN_FOR

    commit = prime_rl_commit(directory)
    found = f"{directory} at {commit[:8]}"
    if commit == WRITTEN_FOR:
        return Finding("prime-rl", State.OK, found)
    mend = f"git checkout {WRITTEN_FOR} in it, then uv sync as docs/training.md says"
    told = f"{found}; the settings are for {WRITTEN_FOR[:8]}"
    return Finding("prime-rl", State.WARN, told, mend)


def _environment(directory: Path) -> Finding:
    """Import the environment that prime-rl trains on, with prime-rl's own Python."""
    from text2sql.training.prime_rl.checkout import check_environment

    name = "prime-rl environment"
    try:
        found = check_environment(directory)
    except Text2SqlError as error:
        return Finding(name, State.FAIL, str(error))
    return Finding(name, State.OK, f"text2sql_env of text2sql {found['version']}")
