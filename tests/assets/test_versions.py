"""What every asset says of itself: owner, kinds, columns, code; and versions made from content."""

from pathlib import Path

import dagster as dg
import pytest

from assets.common import versions
from assets.common.sources import ROLLOUT_BEHAVIOUR, SOURCES, TRAINING_BEHAVIOUR, version_for
from assets.common.versions import behaviour_version, code_version
from assets.reporting.questions import report_questions
from pipelines.code_links import BRANCH_VARIABLE, URL_VARIABLE, with_code_links
from pipelines.definitions import defs
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


def test_what_is_a_table_has_columns():
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


def test_every_asset_has_its_sources_and_they_are_there():
    assert set(SOURCES) == set(specs())
    listed = {*ROLLOUT_BEHAVIOUR, *(path for paths in SOURCES.values() for path in paths)}
    listed |= {path for paths in TRAINING_BEHAVIOUR.values() for path in paths}
    assert [path for path in listed if not (REPO / path).exists()] == []
    for name, spec in specs().items():
        assert spec.code_version == version_for(name), name


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
def test_what_code_does_has_a_version_without_its_words(tmp_path, monkeypatch, old, new, same):
    monkeypatch.setattr(versions, "CHECKOUT", tmp_path)
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    before = behaviour_version("module.py"), code_version("module.py")
    assert old in SOURCE
    file.write_text(SOURCE.replace(old, new))
    assert (behaviour_version("module.py") == before[0]) is same
    assert code_version("module.py") != before[1]
