"""The wheel: built from the checkout, and used where there is no checkout and no extra."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import closing
from importlib.metadata import files, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.scripted_server import ScriptedServer, submits

REPO = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy of the sources, by the setuptools that are here."""
    folder, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, source)
    for name in ("text2sql", "text2sql_env"):
        shutil.copytree(REPO / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--quiet", "--wheel-dir", folder, source], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """Python of a new environment with the wheel and what its base install brings, no more.

    The base dependencies are taken from this environment, so that nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    ours = Path(sysconfig.get_path("purelib"))
    for name in base_packages("text2sql-lifecycle", set()):
        for place in packages_of(name, ours):
            (site / place.name).symlink_to(place)
    return folder / "bin" / "python"


def base_packages(name: str, seen: set[str]) -> set[str]:
    """Return what a distribution needs without extras, and what that needs."""
    for line in requires(name) or []:
        needed = Requirement(line)
        package = canonicalize_name(needed.name)
        if package not in seen and (not needed.marker or needed.marker.evaluate({"extra": ""})):
            seen.add(package)
            base_packages(package, seen)
    return seen


def packages_of(name: str, site: Path) -> list[Path]:
    """Return the files and folders in ``site`` that a distribution put there."""
    tops = {Path(str(file)).parts[0] for file in files(name) or []}
    places = [site / top for top in tops - {"..", "__pycache__"}]
    return [place for place in places if place.exists()]


@pytest.fixture
def run(python, tmp_path, monkeypatch):
    """Run text2sql of the new environment in an empty folder."""
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}

    def text2sql(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-I", "-m", "text2sql", *words], cwd=tmp_path, text=True, check=False,
            capture_output=True, timeout=60, env=kept | {"HOME": str(tmp_path)},
        )  # fmt: skip

    return text2sql


def test_the_wheel_has_what_it_needs_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"text2sql/py.typed", "text2sql/datasets/pocket/policy/model.safetensors"} <= names
    assert {"text2sql/common/templates/base.html"} <= names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"text2sql", "text2sql_env"}


def test_it_runs_sql(run):
    done = run("sql", "shop.sqlite", "SELECT count(*) FROM t")
    assert (done.returncode, done.stdout) == (0, "count(*)\n2\n(1 row)\n")
    assert run("sql", "shop.sqlite", "DROP TABLE t").returncode == 3


def test_it_asks_a_server(run):
    with ScriptedServer([submits("SELECT sum(a) AS total FROM t")]) as server:
        done = run("ask", "shop.sqlite", "How much?", "--policy", server.url, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [[3]]


def test_it_evaluates(run, tmp_path):
    (tmp_path / "databases" / "shop").mkdir(parents=True)
    (tmp_path / "shop.sqlite").rename(tmp_path / "databases" / "shop" / "shop.sqlite")
    question = {"question_id": 0, "db_id": "shop", "question": "?", "SQL": "SELECT a FROM t"}
    (tmp_path / "dev.json").write_text(json.dumps([question]))
    (tmp_path / "predicted.json").write_text(json.dumps({"0": "SELECT a FROM t ORDER BY a DESC"}))
    words = ("--questions", "dev.json", "--databases", "databases")
    done = run("evaluate", *words, "--predictions", "predicted.json", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["execution_accuracy"] == 1.0


def test_what_needs_an_extra_names_it(run):
    for words, extra in (
        (("ask", "shop.sqlite", "?", "--policy", "pocket"), "local"),
        (("questions", "list"), "reporting"),
    ):
        done = run(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
        assert f"text2sql-lifecycle[{extra}]" in done.stderr
    assert run("doctor").stdout.startswith("ok    python")
    assert run("--help").returncode == 0
