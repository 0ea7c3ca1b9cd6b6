"""The log of held-out evaluations: what a figure is worth after who looked at the split."""

import json

import pytest

from text2sql.common.artifacts import held_out_log
from text2sql.errors import Text2SqlError
from text2sql.evaluation.held_out import Use, metric, note_use, require_selection, uses_of
from text2sql.evaluation.promotion.candidate import read_candidate
from text2sql.evaluation.rollout_scores import PolicyRollouts, score_policies
from text2sql.evaluation.scores import BASE, TRAINED


def use(revision: str = "r1", run: str = "a", split: str = "test") -> Use:
    """Make a use of a split."""
    return Use(split, "data", revision, f"training {revision}", run)


def test_the_first_use_is_clean_and_a_repeated_run_is_the_same_use(tmp_path):
    assert note_use(tmp_path, use()) == note_use(tmp_path, use())
    (only,) = uses_of(tmp_path, "test", "data")
    assert only.at.endswith("+00:00")
    assert metric([only], "r1") == (
        "held-out metric: the split 'test' was evaluated once, for this policy"
    )


def test_a_second_use_and_other_policies_are_reported(tmp_path):
    note_use(tmp_path, use())
    twice = note_use(tmp_path, use(run="b"))
    assert "not a clean one: it was evaluated 2 times for this policy" in metric(twice, "r1")
    others = note_use(tmp_path, use("r2", "c"))
    assert "before for 1 other: choosing among them" in metric(others, "r2")
    assert uses_of(tmp_path, "test", "other data") == []


@pytest.mark.parametrize("split", ["train", "dev"])
def test_splits_that_decide_something_are_refused(tmp_path, split):
    with pytest.raises(Text2SqlError, match=f"'{split}' cannot be held out"):
        note_use(tmp_path, use(split=split))
    assert not (held_out_log(tmp_path)).exists()


def test_a_gate_must_not_choose_by_a_held_out_split(tmp_path):
    require_selection(tmp_path, "test", "data")
    note_use(tmp_path, use())
    with pytest.raises(Text2SqlError, match=r"final figure of the training run training r1 at 20"):
        require_selection(tmp_path, "test", "data")


def test_a_candidate_scored_on_a_held_out_split_is_refused(tmp_path):
    policies = [PolicyRollouts(name, "r1", []) for name in (BASE, TRAINED)]
    scores = score_policies([], *policies, 1, {"split": "test", "dataset": "data"})
    training = {"policy": "p", "policy_revision": "r1", "base_revision": "b"}
    for place, row in (
        ("training/june/training.json", training),
        ("evaluation/june/scores.json", scores.to_dict()),
        ("evaluation/june/outcomes.json", {"greedy": {}}),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(json.dumps(row))
    assert read_candidate(tmp_path, "june").policy == "p"
    note_use(tmp_path, use())
    with pytest.raises(Text2SqlError, match="Choose policies by another split"):
        read_candidate(tmp_path, "june")


@pytest.mark.parametrize("line", ["{", "[]", json.dumps({"split": "test"})])
def test_a_damaged_log_stops_the_evaluation(tmp_path, line):
    (held_out_log(tmp_path)).write_text(line + "\n")
    with pytest.raises(Text2SqlError, match=r"held_out.*(line 1, |not a use of a held-out split)"):
        note_use(tmp_path, use())


def test_a_use_that_cannot_be_logged_is_not_evaluated(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Text2SqlError, match="so the split is not evaluated"):
        note_use(tmp_path / "file" / "root", use())
