"""What an evaluation asks and compares, without Dagster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from text2sql.common.artifacts import champion_file
from text2sql.common.json_files import write_json
from text2sql.errors import Text2SqlError
from text2sql.evaluation.evaluate import champion_set, first_of_subsets, read_sets
from text2sql.evaluation.stored import ROLLOUTS
from text2sql.policy.base import Sampling
from text2sql.questions import Question
from text2sql.rollouts.sets import RolloutSet

TRAINED = RolloutSet("p", "new", "prompts-1", "dev", "data-1", Sampling(0.0), 1, ("dev/1",))
SETS = {"base greedy": replace(TRAINED, policy_revision="base"), "trained greedy": TRAINED}


def test_the_first_questions_of_each_subset_are_chosen():
    questions = [
        Question(f"dev/{n}", "db", Path("x"), "?", subset=subset)
        for n, subset in enumerate(["a", "b", "a", "a", "b"])
    ]
    assert [one.key for one in first_of_subsets(questions, 1)] == ["dev/0", "dev/1"]
    assert first_of_subsets(questions, 0) == questions


@pytest.mark.parametrize(
    ("changes", "answer", "asked", "warning"),
    [
        ({}, ("old", "prompts-1"), True, ""),
        ({"dataset": "data-1", "prompt_revision": "prompts-1"}, None, False, ""),
        ({"revision": "base"}, None, False, ""),
        ({}, ("other", "prompts-1"), False, "its revision is other, but old was promoted"),
        ({}, ("old", "prompts-2"), False, "its prompts are prompts-2 and theirs prompts-1"),
    ],
)
def test_a_champion_is_asked_unless_it_was_or_cannot_be(tmp_path, changes, answer, asked, warning):
    record = {"policy": "http://old", "revision": "old", "training_run": "june"} | changes
    assert champion_set(tmp_path, SETS, lambda spec: answer, print) == {}
    write_json(champion_file(tmp_path), record)
    warnings: list[str] = []
    found = champion_set(tmp_path, SETS, lambda spec: answer, warnings.append)
    expected = replace(TRAINED, policy="http://old", policy_revision="old")
    assert found == ({"champion greedy": expected} if asked else {})
    assert bool(warnings) == bool(warning) and warning in "".join(warnings)


def test_rollouts_of_another_dataset_or_none_are_refused(tmp_path):
    with pytest.raises(Text2SqlError, match="materialize dev_rollouts first"):
        read_sets(tmp_path, tmp_path / "evaluation" / "june", "data-1")
    write_json(tmp_path / ROLLOUTS, {name: one.to_dict() for name, one in SETS.items()})
    assert read_sets(tmp_path, tmp_path, "data-1") == SETS
    with pytest.raises(Text2SqlError, match=r"data-2 \(the current dataset\)"):
        read_sets(tmp_path, tmp_path, "data-2")
