"""What every asset says of itself: owner, kinds, columns, code; and versions made from content."""

import ast
import shutil
from pathlib import Path

import dagster as dg
import pytest

from assets.common.sources import (
    ROLLOUT_BEHAVIOUR,
    SAMPLING,
    SOURCES,
    TRAINING_BEHAVIOUR,
    version_for,
)
from assets.reporting.questions import report_questions
from pipelines.code_links import BRANCH_VARIABLE, URL_VARIABLE, with_code_links
from pipelines.definitions import defs
from text2sql.common import provenance
from text2sql.common.provenance import behaviour_version, code_version
from text2sql.errors import Text2SqlError

REPO = Path(__file__).resolve().parents[2]
TABULAR = {
    *("bird_questions", "bird_databases", "gold_results", "reward_strength", "known_issues"),
    *("base_rollouts", "training_prompts", "dev_rollouts", "held_out_rollouts", "dev_scores"),
    *("report_questions", "report_answers"),
}


def specs() -> dict[str, dg.AssetSpec]:
    """Return what Dagster knows of each asset."""
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_every_asset_has_an_owner_a_kind_a_group_and_a_description():
    for name, spec in specs().items():
        assert spec.owners and spec.kinds and spec.description, name
        assert spec.group_name not in (None, "default"), name


def test_tables_have_columns():
    for name in TABULAR:
        schema = specs()[name].metadata["dagster/column_schema"]
        assert schema.columns and all(column.type for column in schema.columns), name


def test_every_asset_is_linked_to_its_code():
    for name, spec in specs().items():
        (link,) = spec.metadata["dagster/code_references"].code_references
        file = Path(link.file_path)
        lines = file.read_text().splitlines()[link.line_number - 1 :]
        assert file.is_relative_to(REPO / "assets"), name
        assert any(line.startswith(f"def {name}(") for line in lines[:40]), name


def test_code_on_a_git_host(monkeypatch):
    monkeypatch.setenv(URL_VARIABLE, "https://github.com/example/text2sql/")
    monkeypatch.setenv(BRANCH_VARIABLE, "stable")
    (linked,) = with_code_links([report_questions])
    (spec,) = linked.specs
    (link,) = spec.metadata["dagster/code_references"].code_references
    start = "https://github.com/example/text2sql/tree/stable/assets/reporting/questions.py#L"
    assert link.url.startswith(start)
    monkeypatch.setenv(URL_VARIABLE, "https://example.org/text2sql")
    with pytest.raises(Text2SqlError, match="must be a repository on GitHub or GitLab"):
        with_code_links([report_questions])


def test_every_asset_has_its_sources_and_they_exist():
    assert set(SOURCES) == set(specs())
    listed = {*ROLLOUT_BEHAVIOUR, *(path for paths in SOURCES.values() for path in paths)}
    listed |= {path for paths in TRAINING_BEHAVIOUR.values() for path in paths}
    assert [path for path in listed if not (REPO / path).exists()] == []
    for name, spec in specs().items():
        assert spec.code_version == version_for(name), name


def stage_of(spec: dg.AssetSpec) -> str:
    """Return the folder of an asset's module."""
    (link,) = spec.metadata["dagster/code_references"].code_references
    return Path(link.file_path).parent.relative_to(REPO).as_posix()


def test_every_asset_lists_its_own_folder():
    lacking = [name for name, spec in specs().items() if stage_of(spec) not in SOURCES[name]]
    assert lacking == []


EVERYBODYS = {"common", "errors", "questions", "cli", ""}
"""Rooms of the library that shape no result by themselves."""


def rooms_of(folder: Path) -> set[str]:
    """Return the rooms of ``text2sql`` that modules of a folder import, also inside functions."""
    found = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("text2sql"):
                _, *rooms = str(node.module).split(".")
                found |= {rooms[0]} if rooms else {alias.name for alias in node.names}
    return found - EVERYBODYS


def test_every_room_that_a_stage_imports_is_among_its_sources():
    listed: dict[str, set[str]] = {"assets/rollouts": set(SAMPLING)}
    for name, spec in specs().items():
        listed.setdefault(stage_of(spec), set()).update(SOURCES[name])
    lacking = {
        stage: rooms_of(REPO / stage) - {path.split("/")[1] for path in paths if "text2sql" in path}
        for stage, paths in listed.items()
    }
    assert {stage: rooms for stage, rooms in lacking.items() if rooms} == {}


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the sources, whose versions ``version_for`` returns."""
    for package in ("assets", "resources", "text2sql"):
        modules_only = shutil.ignore_patterns("*.[!p]*", "__pycache__")
        shutil.copytree(REPO / package, tmp_path / package, ignore=modules_only)
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "folder",
    ["text2sql/judge", "text2sql/datasets/gold", "assets/evaluation", "text2sql/policy/served"],
)
def test_a_new_or_edited_module_changes_the_versions_of_its_folder(copied, folder):
    """No list of modules has to be kept: whole folders count."""
    listing = {
        name
        for name, paths in SOURCES.items()
        if any(f"{folder}/".startswith(f"{path}/") for path in paths)
    }
    assert listing and listing != set(SOURCES)
    before = {name: version_for(name) for name in SOURCES}
    (copied / folder / "brand_new.py").write_text("ADDED = True\n")
    added = {name: version_for(name) for name in SOURCES}
    assert {name for name in SOURCES if added[name] != before[name]} == listing
    (copied / folder / "brand_new.py").write_text("ADDED = False\n")
    edited = {name: version_for(name) for name in SOURCES}
    assert {name for name in SOURCES if edited[name] != added[name]} == listing


SOURCE = '''"""A module."""

NAME = """a

# no comment
"""


def double(number: int) -> int:
    """Double it."""
    # Twice.
    return 2 * number  # of course
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Double it.", "Return twice the number.", True),
        ("# Twice.", "# Two times.\n    # Or so.", True),
        ("  # of course", "", True),
        ("\n\n\ndef", "\n\ndef", True),
        ("2 * number", "3 * number", False),
        ("a\n\n#", "a\n#", False),
        ("# no comment", "# still none", False),
    ],
)
def test_the_behaviour_version_ignores_comments_and_docstrings(
    tmp_path, monkeypatch, old, new, same
):
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    before = behaviour_version("module.py"), code_version("module.py")
    assert old in SOURCE
    file.write_text(SOURCE.replace(old, new))
    assert (behaviour_version("module.py") == before[0]) is same
    assert code_version("module.py") != before[1]


def test_a_template_is_part_of_the_code_but_not_of_its_behaviour(tmp_path, monkeypatch):
    monkeypatch.setattr("text2sql.common.provenance.CHECKOUT", tmp_path)
    (tmp_path / "room" / "templates").mkdir(parents=True)
    (tmp_path / "room" / "page.py").write_text("x = 1\n")
    template = tmp_path / "room" / "templates" / "page.html"
    versions = set()
    for text in ("<p>old</p>", "<p>new</p>"):
        template.write_text(text)
        versions.add((code_version("room"), behaviour_version("room")))
    assert [len(set(kind)) for kind in zip(*versions, strict=True)] == [2, 1]
    with pytest.raises(FileNotFoundError):
        code_version("no-such-room")
