"""The house rules that a program can see: arrows, light imports, sizes, docstrings, types."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
PACKAGES = {
    "text2sql": set(),
    "text2sql_env": {"text2sql"},
    "resources": {"text2sql"},
    "assets": {"text2sql", "resources"},
    "pipelines": {"text2sql", "resources", "assets"},
}
"""Each package and the packages of ours that it may import."""

ROOMS = {
    "text2sql": {
        "errors": set(),
        "questions": set(),
        "common": set(),
        "sandbox": set(),
        "judge": {"sandbox", "common"},
        "policy": {"common"},
        "agent": {"judge", "policy", "sandbox", "common"},
        "rollouts": {"agent", "judge", "policy", "sandbox", "common"},
        "datasets": {"rollouts", "agent", "judge", "policy", "sandbox", "common"},
        "evaluation": {"datasets", "rollouts", "agent", "judge", "policy", "sandbox", "common"},
        "reporting": {"rollouts", "agent", "judge", "policy", "sandbox", "common"},
        "training": {
            *("evaluation", "datasets", "rollouts", "agent"),
            *("judge", "policy", "sandbox", "common"),
        },
        "cli": {
            *("training", "reporting", "evaluation", "datasets", "rollouts", "agent"),
            *("judge", "policy", "sandbox", "common"),
        },
        "__main__": {"cli", "common"},
    },
    "assets": {
        "common": set(),
        "checks": {"common"},
        "data": {"common", "checks"},
        "rollouts": {"common", "checks", "data"},
        "evaluation": {"common", "checks", "data", "rollouts"},
        "training": {"common", "checks", "data", "rollouts", "evaluation"},
        "promotion": {"common", "checks", "data", "rollouts", "evaluation"},
        "reporting": {
            *("common", "checks", "data", "rollouts", "evaluation", "training", "promotion")
        },
    },
}
"""The rooms of a package, and the rooms of the same package that each may import.

``errors`` and ``questions`` are everybody's, and every room may import its own modules.
"""

OURS = {*PACKAGES, "benchmarks", "documentation", "examples", "tests"}
BASE = {"click", "aiohttp", "packaging", "rich", "jinja2", "markupsafe", "psutil", "urllib3"}
"""What the base install brings; jinja2 is built on markupsafe."""

CHILD_PROGRAMS = ("text2sql/training/",)
"""Programs that run below a Dagster step and report through ``dagster_pipes``."""

NEEDS_EXTRA = {
    "text2sql/reporting/": {"sqlalchemy", "alembic", "yaml"},
    "text2sql/judge/strength/": {"sqlglot"},
    "text2sql/evaluation/failures/": {"sqlglot"},
    "text2sql/training/": {
        *("torch", "transformers", "trl", "datasets", "pydantic", "tomli_w", "verifiers")
    },
    "text2sql/datasets/gold/": {"sqlglot"},
    "text2sql/policy/local/": {"torch", "transformers", "jinja2"},
    "text2sql_env/": {"verifiers"},
}
"""Folders that only make sense with an extra, and what of it they import at once."""

LONGEST = 400
LONGER: dict[str, str] = {}
"""Modules that may have more lines, and why."""

FULLEST = 16
"""Files that a folder of the product holds at most, its ``__init__.py`` apart."""

PRINTING = ("text2sql/training/", "pipelines/", "examples/", "benchmarks/", "documentation/")
"""Programs of their own, whose standard output is a log or a screen."""


def modules(*packages: str) -> list[Path]:
    """Return the files of packages, without the migrations, which are history."""
    files = [REPO / name for name in listed_files(*packages) if name.endswith(".py")]
    return [file for file in files if file.is_file() and "migrations" not in file.parts]


def listed_files(*below: str) -> list[str]:
    """Return the files that git tracks."""
    command = ["git", "ls-files", *below]
    listed = subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


def name_of(file: Path) -> str:
    return str(file.relative_to(REPO))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module


def all_imports(file: Path) -> set[str]:
    return {name for node in ast.walk(tree(file)) for name in imported(node)}


def imports_at_once(file: Path) -> set[str]:
    """Return what importing a module imports: not what functions or type checkers do."""
    found: set[str] = set()
    waiting: list[ast.stmt] = list(tree(file).body)
    while waiting:
        node = waiting.pop()
        found.update(imported(node))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            waiting += [child for child in ast.walk(node) if isinstance(child, ast.stmt)][1:]
    return found


def first(name: str) -> str:
    return name.partition(".")[0]


PRODUCT = modules(*PACKAGES)
ALL_BUT_TESTS = [*PRODUCT, *modules("benchmarks", "documentation", "examples")]


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_run_one_way(package):
    allowed = PACKAGES[package] | {package}
    wrong = {
        name_of(file): sorted(name for name in all_imports(file) if first(name) in OURS - allowed)
        for file in modules(package)
    }
    assert {file: names for file, names in wrong.items() if names} == {}


def room_of(name: str) -> str:
    """Return the room that a dotted module name is in: its second part."""
    return [*name.split("."), ""][1]


@pytest.mark.parametrize("package", ROOMS)
def test_arrows_between_rooms_run_one_way(package):
    rooms, wrong = ROOMS[package], []
    for file in modules(package):
        room = file.relative_to(REPO / package).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in rooms, f"{name_of(file)} is in no room"
        allowed = rooms[room] | {room, "errors", "questions", ""}
        inner = {name for name in all_imports(file) if first(name) == package}
        wrong += [
            f"{name_of(file)}: {name}" for name in sorted(inner) if room_of(name) not in allowed
        ]
    assert wrong == []


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_have_no_circles(package):
    TopologicalSorter(ROOMS[package]).prepare()


def test_folders_are_not_crowded():
    files = [file for file in PRODUCT if file.name != "__init__.py"]
    counts = Counter(name_of(file.parent) for file in files)
    assert {name: count for name, count in counts.items() if count > FULLEST} == {}


def test_nothing_is_loose_in_the_library():
    loose = {file.stem for file in modules("text2sql") if file.parent == REPO / "text2sql"}
    assert loose == {"__init__", "__main__", "errors", "questions"}


def test_the_library_knows_no_dagster():
    found = {
        name_of(file): name
        for file in modules("text2sql", "text2sql_env")
        for name in all_imports(file)
        if first(name).startswith("dagster")
    }
    children = {file for file in found if file.startswith(CHILD_PROGRAMS)}
    assert set(found) == children
    assert {first(name) for name in found.values()} <= {"dagster_pipes"}


def test_the_base_install_is_enough_to_import_what_needs_no_extra():
    wrong = {}
    for file in modules("text2sql", "text2sql_env"):
        allowed = BASE | {"text2sql", "dagster_pipes"} | set(sys.stdlib_module_names)
        for place, names in NEEDS_EXTRA.items():
            if name_of(file).startswith(place):
                allowed |= names
        outside = {name for name in imports_at_once(file) if first(name) not in allowed}
        if outside:
            wrong[name_of(file)] = sorted(outside)
    assert wrong == {}


def test_modules_are_short():
    lengths = {name_of(file): len(file.read_text().splitlines()) for file in ALL_BUT_TESTS}
    long = {name: count for name, count in lengths.items() if count > LONGEST}
    assert {name: count for name, count in long.items() if name not in LONGER} == {}


def public(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the functions, classes and methods of a module that others may use."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    waiting = list(tree(file).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node
            waiting += node.body if isinstance(node, ast.ClassDef) else []


def test_public_names_have_docstrings():
    lacking = [
        f"{name_of(file)}: the module" for file in PRODUCT if not ast.get_docstring(tree(file))
    ]
    lacking += [
        f"{name_of(file)}:{node.lineno} {node.name}"
        for file in PRODUCT
        for node in public(file)
        if not ast.get_docstring(node)
    ]
    assert lacking == []


def test_public_functions_are_annotated():
    lacking = []
    for file in PRODUCT:
        for node in public(file):
            if isinstance(node, ast.ClassDef):
                continue
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            bare = [a.arg for a in given if a.annotation is None and a.arg not in ("self", "cls")]
            if bare or node.returns is None:
                lacking.append(f"{name_of(file)}:{node.lineno} {node.name} {bare}")
    assert lacking == []


def test_the_package_says_that_it_is_typed():
    assert (REPO / "text2sql" / "py.typed").is_file()
    assert '"py.typed"' in (REPO / "pyproject.toml").read_text()


def test_only_programs_print():
    found = [
        f"{name_of(file)}:{node.lineno}"
        for file in PRODUCT
        if not name_of(file).startswith(PRINTING)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert found == []


MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:(?:work|root)/|(?:home|Users|tmp)/\w)")
ATTACKS = (
    "tests/datasets/test_archives.py",
    "tests/datasets/test_bird.py",
    "tests/sandbox/attacks.py",
)
"""Where paths are what an attacker names."""


def test_nothing_names_a_path_of_somebodys_machine():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPO, check=True, capture_output=True, text=True
    )
    found = []
    for name in listed.stdout.splitlines():
        file = REPO / name
        if not file.is_file() or file.suffix in (".safetensors", ".png", ".jpg", ".sqlite"):
            continue
        if file == Path(__file__) or name in ATTACKS:
            continue
        for number, line in enumerate(file.read_text("utf-8", errors="replace").splitlines(), 1):
            if MACHINE_PATHS.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []


def test_only_the_sandbox_opens_databases_of_users():
    """``sqlite3.connect`` elsewhere makes or reads files of the project's own."""
    own = {
        "text2sql/judge/known_results.py": "results of earlier runs",
        "text2sql/datasets/pocket/world.py": "the pocket corpus, which it makes",
        "text2sql/cli/doctor/machine.py": "a database that it makes, and the reporting tables",
        "text2sql/reporting/tables/database.py": "the reporting tables",
    }
    found = {
        name_of(file)
        for file in modules("text2sql", "assets", "resources", "pipelines")
        if "sqlite3.connect(" in file.read_text()
        and not name_of(file).startswith("text2sql/sandbox/")
    }
    assert found <= set(own), found - set(own)


def callers(function: str) -> set[str]:
    """Return the modules of the product that call a function by this name."""
    return {
        name_of(file)
        for file in PRODUCT
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
        and function in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    }


def test_a_models_sql_is_cleaned_once():
    """The agent cleans what a model writes; everybody else cleans only what people write."""
    people = {
        "text2sql/cli/commands/sql.py": "the statement on the command line",
        "text2sql/cli/options/reporting.py": "verified SQL",
        "text2sql/reporting/answering/attempt.py": "verified SQL",
        "text2sql/reporting/answering/replay.py": "verified SQL",
    }
    assert callers("clean_sql") - set(people) == {"text2sql/agent/tools.py"}


def test_equality_of_results_has_one_owner():
    """Nobody but ``judge.equality`` compares the digests of results."""
    names = ("digest", "multiset_digest", "ordered_digest", "near", "near_multiset")
    found = {
        name_of(file)
        for file in PRODUCT
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Attribute) and side.attr in names
    }
    assert found == set()
    assert callers("same") >= {
        "text2sql/judge/verdicts.py",
        "text2sql/judge/rules.py",
        "text2sql/evaluation/known_issues.py",
    }
    assert callers("alike") == {
        "text2sql/reporting/answering/attempt.py",
        "text2sql/reporting/answering/replay.py",
        "text2sql/reporting/tables/store.py",
        "text2sql/reporting/tables/writing.py",
    }


def test_what_gold_is_worth_has_one_owner():
    """Whether gold is lost, failing, empty or usable is asked of ``GoldResult``."""
    found = {
        f"{name_of(file)}:{node.lineno}"
        for file in PRODUCT
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Compare)
        and "gold" in ast.unparse(node.left)
        and re.search(r"\.(status|row_count)$", ast.unparse(node.left))
    }
    allowed = ("text2sql/datasets/gold/run.py:",)  # whose errors only it explains
    assert {name for name in found if not name.startswith(allowed)} == set()


def test_how_files_begin_has_one_owner():
    """Compressed files, databases and web pages are told apart in ``common.files``."""
    magic = re.compile(r"SQLite format 3|PK\\x0[13]|x1f\\x8b|7zXZ|git-lfs\"|Rar!")
    found = {name_of(file) for file in PRODUCT if magic.search(file.read_text())}
    assert found == {"text2sql/common/files.py"}


def test_only_the_guard_reads_proc():
    """Everybody else asks psutil, which works without Linux's /proc."""
    found = {
        name_of(file)
        for file in modules("text2sql", "assets", "resources")
        if "/proc" in file.read_text()
    }
    assert found == {"text2sql/common/guard.py"}


def test_odd_cells_and_text_tables_have_one_owner():
    """``common.values`` names infinities, ``common.render`` aligns columns."""
    named = {name_of(file) for file in PRODUCT if '"Infinity"' in file.read_text()}
    assert named <= {"text2sql/common/values.py", "text2sql/reporting/model/values.py"}
    assert callers("ljust") | callers("rjust") == set()


def test_charts_and_html_have_one_owner():
    """``common.charts`` draws, templates below ``common.html`` hold the markup."""
    drawing = {
        name_of(file)
        for file in PRODUCT
        if any(first(name) == "matplotlib" for name in all_imports(file))
    }
    assert drawing == {"text2sql/common/charts.py", "pipelines/preload.py"}
    tags = re.compile(r"<(?:html|body|table|section|details|svg|p|h[1-6]|div)[ >]")
    found = {
        name_of(file)
        for file in PRODUCT
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if tags.search(node.value)
    }
    assert found == {"text2sql/common/charts.py"}
