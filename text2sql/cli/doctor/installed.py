"""What is installed: Python, the packages of each extra, vLLM and prime-rl.

vLLM and prime-rl have environments of their own and are never imported.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import tomllib
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from text2sql.cli.doctor.finding import Finding, State
from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError
from text2sql.policy.vllm.command import INSTALL, find_vllm
from text2sql.policy.vllm.gpu import visible_gpus
from text2sql.policy.vllm.options import PYTHON_VARIABLE
from text2sql.training.prime_rl.checkout import PRIME_RL_VARIABLE, prime_rl_directory

PROJECT = "text2sql-lifecycle"
_PURPOSE = {
    "reporting": "the reporting tables",
    "postgres": "reporting tables in PostgreSQL",
    "pipelines": "the Dagster project",
    "local": "a policy in this process, the pocket policy too, and GRPO on one machine",
}
"""The extras that belong in this environment; vLLM has its own."""


def check_python() -> Iterable[Finding]:
    """Compare this Python with the project's range."""
    project = _project_table()
    needed = (project or {}).get("requires-python", metadata.metadata(PROJECT)["Requires-Python"])
    found = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if platform.python_version() in SpecifierSet(needed, prereleases=True):
        yield Finding("python", State.OK, found)
    else:
        fix = f"make an environment with a Python {needed}"
        yield Finding("python", State.FAIL, f"{found}; the project needs {needed}", fix)


def check_packages() -> Iterable[Finding]:
    """Compare the installed packages with the project's pins, the core's and each extra's."""
    requirements = _requirements()
    for extra, purpose in ({"": ""} | _PURPOSE).items():
        name = f"extra {extra}" if extra else "packages"
        needed = _with_nested(extra, requirements)
        lacking = ", ".join(filter(None, map(_lack, needed)))
        if not lacking:
            names = dict.fromkeys(requirement.name for requirement in needed)
            found = ", ".join(f"{name} {metadata.version(name)}" for name in names)
            yield Finding(name, State.OK, found)
        elif extra:
            fix = f"pip install '{PROJECT}[{extra}]' where you need it"
            yield Finding(name, State.WARN, f"for {purpose}: {lacking}", fix)
        else:
            fix = f"pip install '{PROJECT}', or make setup in the checkout"
            yield Finding(name, State.FAIL, lacking, fix)


def _with_nested(extra: str, requirements: dict[str, list[Requirement]]) -> list[Requirement]:
    """Return what an extra requires, with what the extras that it names require."""
    found: list[Requirement] = []
    for requirement in requirements.get(extra, []):
        if requirement.name == PROJECT:
            for nested in requirement.extras:
                found += _with_nested(nested, requirements)
        else:
            found.append(requirement)
    return found


def _lack(requirement: Requirement) -> str:
    """Return what is wrong with one package, empty if nothing."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} is {version} instead of {requirement.specifier}"


def _requirements() -> dict[str, list[Requirement]]:
    """Return what each extra requires on this machine; the core's requirements are under ""."""
    project = _project_table()
    if project is not None:
        texts = {"": project["dependencies"], **project["optional-dependencies"]}
        parsed = {extra: map(Requirement, lines) for extra, lines in texts.items()}
        return {
            extra: [one for one in lines if one.marker is None or one.marker.evaluate()]
            for extra, lines in parsed.items()
        }
    listed = [Requirement(text) for text in metadata.requires(PROJECT) or ()]
    return {extra: [one for one in listed if _belongs(one, extra)] for extra in ("", *_PURPOSE)}


def _belongs(requirement: Requirement, extra: str) -> bool:
    """Say whether a requirement of the installed package belongs to this extra."""
    marker = requirement.marker
    if marker is None:
        return extra == ""
    return marker.evaluate({"extra": extra}) and (extra == "" or not marker.evaluate({"extra": ""}))


def _project_table() -> dict[str, Any] | None:
    """Read the checkout's pyproject.toml, as the installed metadata may be older."""
    file = CHECKOUT / "pyproject.toml"
    if not file.is_file():
        return None
    project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return project if project["name"] == PROJECT else None


def check_vllm() -> Iterable[Finding]:
    """Look for the environment that has vLLM, and ask its Python for the version."""
    gpus = bool(visible_gpus())
    try:
        found = find_vllm(gpu=gpus)
    except Text2SqlError as error:
        state = State.FAIL if PYTHON_VARIABLE in os.environ else State.WARN
        yield Finding("vllm", state, str(error).partition(f": {INSTALL}")[0], INSTALL)
        return
    text = f"{found.distribution} {found.version} ({found.path})"
    if gpus and found.cpu:
        yield Finding("vllm", State.WARN, f"{text} does not use the GPU", INSTALL)
    elif not gpus and not found.cpu:
        yield Finding("vllm", State.WARN, f"{text} needs a GPU, and this machine has none", INSTALL)
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
            "https://github.com/PrimeIntellect-ai/prime-rl as docs/training.md says, and set "
            f"{PRIME_RL_VARIABLE} to its folder",
        )
        return
    program = directory / ".venv" / "bin" / "rl"
    if not program.is_file():
        fix = f"run uv sync in it, or set {PRIME_RL_VARIABLE} to prime-rl's checkout"
        yield Finding("prime-rl", State.FAIL, f"{program} does not exist", fix)
    elif shutil.which("uv") is None:
        fix = "pip install uv: it starts prime-rl"
        yield Finding("prime-rl", State.WARN, f"{program}, but uv is missing", fix)
    elif find_spec("pydantic") is None:
        fix = f"pip install '{PROJECT}[pipelines]', which training needs"
        yield Finding("prime-rl", State.WARN, f"{program}, but no Dagster to start it", fix)
    else:
        yield from _prime_rl_checkout(directory)


def _prime_rl_checkout(directory: Path) -> Iterable[Finding]:
    """Compare its commit with the one that the settings are for; import what it trains on."""
    # These need pydantic, which comes with an extra.
    from text2sql.training.prime_rl.checkout import check_environment, prime_rl_commit
    from text2sql.training.prime_rl.toml import WRITTEN_FOR

    commit = prime_rl_commit(directory)
    found = f"{directory} at {commit[:8]}"
    if commit == WRITTEN_FOR:
        yield Finding("prime-rl", State.OK, found)
    else:
        found += f"; the settings are for {WRITTEN_FOR[:8]}"
        fix = f"git checkout {WRITTEN_FOR} in it, then uv sync as docs/training.md says"
        yield Finding("prime-rl", State.WARN, found, fix)
    name = "prime-rl environment"
    try:
        version = check_environment(directory)["version"]
        yield Finding(name, State.OK, f"text2sql_env of text2sql {version}")
    except Text2SqlError as error:
        yield Finding(name, State.FAIL, str(error))
