"""The model card, and the champion: the policy that answers every day."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from assets.common.columns import MODEL_TEAM
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import training_run_of, training_runs
from assets.common.plots import records
from assets.common.sources import version_for
from assets.evaluation.dev_scores import dev_scores
from assets.promotion.back_test import back_test_run
from resources.artifact_root import ArtifactRoot
from resources.forms import Form
from resources.gate import PromotionGate
from resources.policy import PolicyResource
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import evaluation_folder
from text2sql.common.files import write_whole
from text2sql.common.provenance import fingerprint
from text2sql.errors import Text2SqlError
from text2sql.evaluation.model_card import render_card
from text2sql.evaluation.promotion.candidate import read_candidate, rival_of
from text2sql.evaluation.promotion.champion import read_incumbent, require_champion, run_of
from text2sql.evaluation.promotion.changes import (
    PROMOTION,
    history,
    promote,
    promote_by_hand,
    roll_back,
)
from text2sql.evaluation.promotion.gate import (
    BACK_TEST,
    Finding,
    Ruling,
    decide,
    objections,
    run_checks,
)
from text2sql.evaluation.scores import markdown_table, score_rows
from text2sql.evaluation.stored import last_evaluated, read_scores
from text2sql.policy.places import is_served
from text2sql.training.runs import read_training

SHOWN = 20
"""Champions that metadata shows at most, the present one among them."""


@dg.asset(
    group_name="evaluation",
    partitions_def=training_runs,
    deps=[dev_scores],
    owners=MODEL_TEAM,
    code_version=version_for("model_card"),
    kinds={"markdown"},
)
@fails_in_a_sentence
def model_card(context: dg.AssetExecutionContext, root: ArtifactRoot) -> dg.MaterializeResult:
    """What the trained policy is, how it was made, and its scores; also beside its weights."""
    run = context.partition_key
    scores, training = read_scores(root.path, run), read_training(root.path, run)
    text = render_card(f"text2sql-{run}", scores, training)
    card, weights = evaluation_folder(root.path, run) / "README.md", Path(training["policy"])
    for file in (card, *([weights / "README.md"] if weights.is_dir() else [])):
        write_whole(file, text)
    table = markdown_table(score_rows(scores, ("all", "corrected", "subset")))
    named = {name: value for name, value in scores.provenance.items() if name != "dagster_run"}
    lasting = render_card(f"text2sql-{run}", replace(scores, provenance=named), training)
    return dg.MaterializeResult(
        metadata={"path": dg.MetadataValue.path(card), "scores": dg.MetadataValue.md(table)},
        data_version=dg.DataVersion(fingerprint(card=lasting)),
    )


class ChampionConfig(Form):
    """Who is to be champion."""

    action: Literal["decide", "promote_by_hand", "roll_back"] = Field(
        default="decide",
        description="'decide': the gate and the comparison with the champion decide on a training "
        "run; 'promote_by_hand': it is promoted whatever they find; 'roll_back': the previous "
        "champion comes back.",
    )
    training_run: str = Field(
        default="", description="Empty: the run's own partition, or the one evaluated last."
    )
    reason: str = Field(
        default="",
        description="Why: required for 'promote_by_hand' and 'roll_back', stored in the history.",
    )
    to: int = Field(
        default=0,
        ge=0,
        description="For 'roll_back': the number of a former champion; 0: the one before.",
    )


@dg.asset(
    group_name="evaluation",
    deps=[dg.AssetDep(model_card, partition_mapping=dg.AllPartitionMapping())],
    owners=MODEL_TEAM,
    code_version=version_for("champion_policy"),
    kinds={"json"},
)
@fails_in_a_sentence
def champion_policy(
    context: dg.AssetExecutionContext,
    config: ChampionConfig,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
    policy: PolicyResource,
    sandbox: SandboxResource,
    gate: PromotionGate,
) -> dg.MaterializeResult:
    """The policy that answers every day: a training run that passed its gate and is better.

    If it is not better beyond noise the champion stays; if it fails a check of the gate this step
    fails, and the champion stays as well.
    """
    if config.action == "roll_back":
        record = roll_back(root.path, config.reason, config.to or None, context.run_id)
        return _result(root, f"{record['training_run']} is champion again: {record['reason']}")
    run = config.training_run or training_run_of(context) or last_evaluated(root.path)
    rules = gate.rules()
    if config.action == "promote_by_hand":
        record = promote_by_hand(root.path, run, config.reason, rules, context.run_id)
        findings = [Finding(**finding) for finding in record["findings"]]
        return _result(root, f"{run} was promoted by hand, {objections(findings)}.", findings)
    # The gate runs once more, because the champion may have changed since.
    seen, candidate = read_incumbent(root.path), read_candidate(root.path, run)
    rival = rival_of(root.path, seen.record, candidate)
    findings = run_checks(candidate, rival, rules)
    if all(finding.passed for finding in findings):
        test = back_test_run(root.path, run, context.run_id, reporting, policy, sandbox)
        findings.append(Finding(BACK_TEST, test.passed, test.sentence))
    decision = decide(candidate, rival, findings, rules)
    why = decision.sentence
    context.log.info(why)
    if decision.ruling is Ruling.REFUSED:
        raise Text2SqlError(why)
    if decision.ruling is Ruling.PROMOTED:
        promote(root.path, seen, candidate, findings, PROMOTION, why, context.run_id)
    return _result(root, why, findings)


def _result(
    root: ArtifactRoot, decision: str, findings: Sequence[Finding] = ()
) -> dg.MaterializeResult:
    return dg.MaterializeResult(
        metadata=champion_facts(root, decision, findings),
        data_version=dg.DataVersion(require_champion(root.path)["revision"]),
    )


def champion_facts(
    root: ArtifactRoot, decision: str, findings: Sequence[Finding] = ()
) -> dict[str, Any]:
    """Return the metadata of ``champion_policy``: the decision, the champion, the history."""
    champion, past = require_champion(root.path), history(root.path)
    policy = str(champion["policy"])
    names = ("number", "promoted_at", "act", "training_run", "revision", "greedy", "by", "reason")
    rows = []
    for record in reversed(past[-SHOWN:]):
        row = record | {"training_run": run_of(record) or record.get("policy", "")}
        rows.append({name.replace("_", " "): str(row.get(name, ""))[:300] for name in names})
    checks = [
        {"check": one.check, "passed": str(one.passed), "what it says": one.sentence}
        for one in findings
    ]
    return {
        "decision": decision,
        "training run": run_of(champion) or "none: it was adopted",
        "policy": policy if is_served(policy) else dg.MetadataValue.path(policy),
        "policy revision": champion["revision"],
        "greedy": champion.get("greedy", ""),
        "champions before": len(past) - 1,
        **({"checks": records(checks)} if checks else {}),
        "history": records(rows),
    }
