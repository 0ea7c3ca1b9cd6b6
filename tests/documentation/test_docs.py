"""Runs the shell blocks of the README and the tutorials, and compares their output."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.documentation.docs_blocks import DOCS, REPO, SHELLS, Block, Step, blocks, steps

RUN = (
    REPO / "README.md",
    REPO / "CONTRIBUTING.md",
    *sorted((DOCS / "tutorials").glob("*.md")),
    *sorted((DOCS / "how-to").glob("*.md")),
)
NOT_RUN = {
    "README.md": {"minutes": 2, "a policy server": 1, "your files": 1},
    "CONTRIBUTING.md": {"minutes": 3},
    "bird-on-gpus.md": {"a GPU": 4, "a network": 1},
    "own-database.md": {"minutes": 3, "a policy server": 2},
    "own-questions.md": {"minutes": 4},
    "predictions.md": {"a policy server": 1},
    "production.md": {"PostgreSQL": 1, "a cluster": 1},
    "serve.md": {"a GPU": 1, "minutes": 1, "a policy server": 1},
}
"""How many blocks of each page are not run, by what they need: a change is a decision."""

_CHECKER = doctest.OutputChecker()
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def shell_blocks(file: Path) -> list[Block]:
    return [block for block in blocks(file) if block.kind in SHELLS]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder with the programs of this environment on the path, and its own root."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "artifacts"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TEXT2SQL_REPORTING_URL", "TEXT2SQL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(step: Step) -> subprocess.CompletedProcess[str]:
    """Run one command as a person's shell does."""
    return subprocess.run(
        ["bash", "-c", step.command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("page", RUN, ids=lambda file: file.name)
def test_shell_blocks_work(page, place):
    for block in shell_blocks(page):
        assert steps(block), f"{block.name} has no command: begin it with $"
        for step in () if block.needs else steps(block):
            done = shell(step)
            shown = f"{block.name}\n$ {step.command}\n{done.stdout}\n{done.stderr}"
            assert done.returncode == 0, shown
            if step.output:
                assert _CHECKER.check_output(step.output, done.stdout, _OPTIONS), shown


def test_the_blocks_that_are_not_run_are_counted():
    found = {
        page.name: dict(Counter(block.needs for block in shell_blocks(page) if block.needs))
        for page in RUN
    }
    assert {name: counts for name, counts in found.items() if counts} == NOT_RUN
