"""When a policy may take over and when it does: the gate, and the sentences that say why."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ValidationError

from resources.gate import PromotionGate
from tests.evaluation.promotion_place import candidate, evaluate, trained
from text2sql.cli.commands.champion import promote as promote_command
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.candidate import read_candidate, rival_of
from text2sql.evaluation.promotion.champion import read_incumbent
from text2sql.evaluation.promotion.changes import PROMOTION, adopt, promote
from text2sql.evaluation.promotion.gate import GateRules, Ruling, decide, run_checks
from text2sql.evaluation.scores import TRAINED

RULES = GateRules()


def crown(root: Path, run: str) -> None:
    """Make a training run champion."""
    promote(root, read_incumbent(root), read_candidate(root, run), [], PROMOTION, "a test")


def look(root: Path, run: str, rules: GateRules = RULES):
    """Return what the gate finds, by check, and the decision."""
    found = read_candidate(root, run)
    rival = rival_of(root, read_incumbent(root).record, found)
    findings = run_checks(found, rival, rules)
    by_name = {finding.check: finding for finding in findings}
    return by_name, decide(found, rival, findings, rules)


def test_form_options_and_docs_take_the_rules_from_one_definition():
    options = {option.name: option for option in promote_command.params}
    page = (Path(__file__).parents[2] / "docs" / "promotion.md").read_text()
    for rule in fields(GateRules):
        field = PromotionGate.model_fields[rule.name]
        assert (field.default, field.description) == (rule.default, rule.metadata["description"])
        if rule.name != "promote":
            option = options[rule.name]
            assert (option.default, option.help) == (rule.default, field.description)
            assert f"`{rule.name}` {rule.default:g}" in page
    assert PromotionGate(significance=0.2, promote="not_worse").rules() == GateRules(
        significance=0.2, promote="not_worse"
    )
    with pytest.raises(ValidationError, match="less than 1"):
        PromotionGate(significance=1)


def test_the_first_champion_must_not_be_worse_than_the_base(tmp_path):
    candidate(tmp_path, "june", 24)
    findings, decision = look(tmp_path, "june")
    assert decision.ruling is Ruling.PROMOTED
    assert decision.sentence == (
        "june is the first champion. It is better beyond noise than the base: 60.0 vs 25.0, "
        "14 gained, 0 lost of 40 (McNemar exact, p = 0.00012)."
    )
    assert "There is no champion yet." in findings["accuracy_holds"].sentence
    evaluate(tmp_path, "june", 2)
    findings, decision = look(tmp_path, "june")
    assert decision.ruling is Ruling.REFUSED
    assert "Worse beyond noise than the base: 5.0 vs 25.0" in decision.sentence


def test_a_candidate_not_better_beyond_noise_leaves_the_champion_in_place(tmp_path):
    candidate(tmp_path, "june", 24)
    crown(tmp_path, "june")
    candidate(tmp_path, "july", 26, first=2)
    findings, decision = look(tmp_path, "july")
    assert findings["accuracy_holds"].passed
    assert decision.ruling is Ruling.KEPT
    assert decision.sentence == (
        "The champion june stays: july is not better beyond noise than the champion june: "
        "65.0 vs 60.0, 4 gained, 2 lost of 40 (McNemar exact, p = 0.69)."
    )
    decision = look(tmp_path, "july", GateRules(promote="not_worse"))[1]
    assert (
        decision.ruling is Ruling.PROMOTED
        and "is promoted (promote: not_worse)" in decision.sentence
    )


def test_better_beyond_noise_is_promoted_and_worse_is_refused(tmp_path):
    candidate(tmp_path, "june", 20)
    crown(tmp_path, "june")
    candidate(tmp_path, "better", 32)
    assert look(tmp_path, "better")[1].ruling is Ruling.PROMOTED
    candidate(tmp_path, "worse", 12)
    findings, decision = look(tmp_path, "worse", GateRules(promote="not_worse"))
    assert not findings["accuracy_holds"].passed
    assert decision.ruling is Ruling.REFUSED
    assert "Worse beyond noise than the champion june: 30.0 vs 50.0" in decision.sentence


def test_the_champions_own_weights_are_recognized(tmp_path):
    candidate(tmp_path, "june", 20, weights="same")
    crown(tmp_path, "june")
    candidate(tmp_path, "again", 20, weights="same")
    findings, decision = look(tmp_path, "again")
    assert "It has the champion's own weights (the champion june)" in (
        findings["accuracy_holds"].sentence
    )
    assert decision.sentence == "The champion june stays: again has the same weights."


@pytest.mark.parametrize(
    ("other", "named"),
    [({"dataset": "data-2"}, "dataset data-1 and not data-2"),
     ({"prompts": "prompts-2"}, "prompts prompts-1 and not prompts-2")],
)  # fmt: skip
def test_evaluations_on_other_data_or_prompts_are_not_compared(tmp_path, other, named):
    candidate(tmp_path, "june", 20)
    crown(tmp_path, "june")
    candidate(tmp_path, "july", 40, **other)
    _, decision = look(tmp_path, "july")
    assert decision.ruling is Ruling.REFUSED
    assert f"the champion june, which was evaluated on {named}" in decision.sentence
    evaluate(tmp_path, "june", 20, **other)
    assert look(tmp_path, "july")[1].ruling is Ruling.PROMOTED, "june was evaluated again"
    trained(tmp_path, "june", "others")
    evaluate(tmp_path, "june", 20, **other)
    assert look(tmp_path, "july")[1].ruling is Ruling.REFUSED, "those are other weights"


ADOPTED = "http://127.0.0.1:1/v1#small"


def beside(root: Path, run: str, revision: str, right: int, prompts: str = "prompts-1") -> None:
    """Write what another policy answered when a run was evaluated."""
    outcomes = {f"dev/{n}": float(n < right) for n in range(40)}
    row = {revision: {"prompt_revision": prompts, "greedy": outcomes}}
    (root / "evaluation" / run / "rivals.json").write_text(json.dumps(row))


def test_an_adopted_champion_is_compared_by_its_answers_beside_a_candidate(tmp_path):
    adopt(tmp_path, ADOPTED, "revision-small", "our first model")
    candidate(tmp_path, "june", 30)
    _, decision = look(tmp_path, "june")
    assert decision.ruling is Ruling.REFUSED
    assert (
        f"the adopted champion {ADOPTED}, which was not asked these questions. Materialize "
        "dev_rollouts and dev_scores for june again" in decision.sentence
    )
    assert "or was made for other agent settings" in decision.sentence
    assert "text2sql champion promote june --reason WHY, or in the UI with" in decision.sentence
    beside(tmp_path, "june", "revision-small", 20)
    _, decision = look(tmp_path, "june")
    assert decision.ruling is Ruling.PROMOTED
    assert f"than the adopted champion {ADOPTED}: 75.0 vs 50.0, 10 gained" in decision.sentence
    beside(tmp_path, "june", "revision-small", 30)
    assert look(tmp_path, "june")[1].sentence.startswith(f"The adopted champion {ADOPTED} stays: ")
    beside(tmp_path, "june", "revision-small", 20, "prompts-2")
    assert look(tmp_path, "june")[1].ruling is Ruling.REFUSED
    beside(tmp_path, "june", "another", 20)
    assert look(tmp_path, "june")[1].ruling is Ruling.REFUSED
    (tmp_path / "evaluation" / "june" / "rivals.json").write_text('{"revision-small": 1}')
    with pytest.raises(Text2SqlError, match=r"rivals\.json is invalid"):
        look(tmp_path, "june")


def test_a_champion_of_other_data_is_compared_by_its_answers_beside_a_candidate(tmp_path):
    candidate(tmp_path, "june", 20)
    crown(tmp_path, "june")
    candidate(tmp_path, "july", 40, dataset="data-2")
    beside(tmp_path, "july", read_incumbent(tmp_path).record["revision"], 20)
    assert look(tmp_path, "july")[1].ruling is Ruling.PROMOTED


def test_writes_gaps_and_invalid_rollouts_are_refused(tmp_path):
    candidate(tmp_path, "writes", 30, tail="x")
    findings, _ = look(tmp_path, "writes")
    assert (
        "2.5% of its rollouts attempted a write (limit 1.0%)" in findings["writes_bounded"].sentence
    )
    assert not findings["writes_bounded"].passed
    candidate(tmp_path, "gaps", 30, tail="ii")
    findings, decision = look(tmp_path, "gaps")
    assert not findings["evaluation_complete"].passed
    assert "Results are missing for 2 of 40 questions" in decision.sentence
    candidate(tmp_path, "invalid", 30, infrastructure={TRAINED: 0.3})
    findings, _ = look(tmp_path, "invalid")
    assert "invalidated 30.0% of the rollouts (limit 5.0%)" in (
        findings["evaluation_complete"].sentence
    )
    assert not findings["evaluation_complete"].passed


def test_a_comparison_on_few_of_the_questions_is_refused(tmp_path):
    candidate(tmp_path, "june", 20, tail="i" * 10)
    crown(tmp_path, "june")
    candidate(tmp_path, "july", 40)
    findings, _ = look(tmp_path, "july")
    assert not findings["accuracy_holds"].passed
    assert "Only 30 of 40 questions have a result of both." in findings["accuracy_holds"].sentence


def test_runs_that_cannot_be_candidates_are_refused(tmp_path):
    with pytest.raises(Text2SqlError, match="No evaluation of a training run 'june'"):
        read_candidate(tmp_path, "june")
    candidate(tmp_path, "june", 20)
    trained(tmp_path, "june", "trained again")
    with pytest.raises(Text2SqlError, match="scores of the training run june are of other weights"):
        read_candidate(tmp_path, "june")
    file = tmp_path / "evaluation" / "june" / "scores.json"
    file.write_text(json.dumps({"k": 1}))
    with pytest.raises(Text2SqlError, match="lack 'scores': materialize"):
        read_candidate(tmp_path, "june")
    file.write_text("{")
    with pytest.raises(Text2SqlError, match=r"scores\.json cannot be read"):
        read_candidate(tmp_path, "june")
    (tmp_path / "training" / "june" / "training.json").unlink()
    with pytest.raises(Text2SqlError, match=r"training\.json cannot be read: No such"):
        read_candidate(tmp_path, "june")
