"""Python and the packages of each extra, against what the project asks for."""

from __future__ import annotations

import importlib.metadata
import platform
import sqlite3
import tomllib
from collections.abc import Iterable
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from text2sql.cli.doctor.finding import Finding, State
from text2sql.common.checkout import CHECKOUT

PROJECT = "text2sql-lifecycle"
_PURPOSE = {
    "reporting": "the reporting tables",
    "postgres": "reporting tables in PostgreSQL",
    "pipelines": "the Dagster project",
    "local": "a policy in this process, the pocket policy too, and GRPO on one machine",
}
"""The extras that belong into this environment; vLLM has one of its own."""


def check_python() -> Iterable[Finding]:
    """Compare this Python with the project's range."""
    found = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    wanted = _wanted_python()
    if platform.python_version() in SpecifierSet(wanted, prereleases=True):
        yield Finding("python", State.OK, found)
    else:
        mend = f"make an environment with a Python {wanted}"
        yield Finding("python", State.FAIL, f"{found}; the project needs {wanted}", mend)


def check_packages() -> Iterable[Finding]:
    """Compare the installed packages with the project's pins, the core's and each extra's."""
    requirements = _requirements()
    lacking = _lacking(requirements.get("", []))
    mend = f"pip install '{PROJECT}', or make setup in the checkout"
    if lacking:
        yield Finding("packages", State.FAIL, ", ".join(lacking), mend)
    else:
        yield Finding("packages", State.OK, _versions(requirements.get("", [])))
    for extra, purpose in _PURPOSE.items():
        yield _extra(extra, purpose, requirements)


def _extra(extra: str, purpose: str, requirements: dict[str, list[Requirement]]) -> Finding:
    name, wanted = f"extra {extra}", _with_nested(extra, requirements)
    lacking = _lacking(wanted)
    if not lacking:
        return Finding(name, State.OK, _versions(wanted))
    found = f"for {purpose}: {', '.join(lacking)}"
    return Finding(name, State.WARN, found, f"pip install '{PROJECT}[{extra}]' where you need it")


def _with_nested(extra: str, requirements: dict[str, list[Requirement]]) -> list[Requirement]:
    """Return what an extra asks for; extras that it names are part of it."""
    found: list[Requirement] = []
    for requirement in requirements.get(extra, []):
        if requirement.name == PROJECT:
            for nested in requirement.extras:
                found += _with_nested(nested, requirements)
        else:
            found.append(requirement)
    return found


def _lacking(wanted: list[Requirement]) -> list[str]:
    return [sentence for requirement in wanted if (sentence := _lack(requirement))]


def _lack(requirement: Requirement) -> str:
    """Say what is wrong with one package; empty where it is as asked for."""
    version = _version(requirement.name)
    if version is None:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} is {version} instead of {requirement.specifier}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _versions(wanted: list[Requirement]) -> str:
    return ", ".join(
        f"{name} {_version(name)}" for name in dict.fromkeys(one.name for one in wanted)
    )


def _requirements() -> dict[str, list[Requirement]]:
    """Return what each extra asks for on this machine; the core's requirements are under ""."""
    project = _project_table()
    if project is not None:
        texts = {"": project["dependencies"], **project["optional-dependencies"]}
        parsed = {extra: [Requirement(text) for text in lines] for extra, lines in texts.items()}
        return {
            extra: [one for one in lines if one.marker is None or one.marker.evaluate()]
            for extra, lines in parsed.items()
        }
    listed = [Requirement(text) for text in importlib.metadata.requires(PROJECT) or ()]
    return {extra: [one for one in listed if _belongs(one, extra)] for extra in ("", *_PURPOSE)}


def _belongs(requirement: Requirement, extra: str) -> bool:
    """Say whether a requirement of the installed package is one of this extra's."""
    marker = requirement.marker
    if marker is None:
        return extra == ""
    return marker.evaluate({"extra": extra}) and (extra == "" or not marker.evaluate({"extra": ""}))


def _wanted_python() -> str:
    project = _project_table()
    if project is not None:
        return str(project["requires-python"])
    return importlib.metadata.metadata(PROJECT)["Requires-Python"]


def _project_table() -> dict[str, Any] | None:
    """Read pyproject.toml of the checkout: the installed metadata may be older."""
    file = CHECKOUT / "pyproject.toml"
    if not file.is_file():
        return None
    project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return project if project["name"] == PROJECT else None
