"""The model card, the promotion gate, and the champion: the policy that answers every day."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.back_test import BackTester
from assets.data import load_questions, write_file, write_json
from assets.dev_rollouts import evaluation_folder
from assets.evaluation import dev_scores, last_evaluated, read_scores
from assets.partitions import training_run_of, training_runs
from assets.plots import records
from assets.report_questions import report_questions
from assets.sampling import SAMPLING_POOL
from assets.training import read_training
from assets.versions import code_version, read_json
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.processes import end_with_parent
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from text2sql.champion import CHAMPION, champion_record
from text2sql.errors import Text2SqlError
from text2sql.model_card import render_card
from text2sql.promotion import GateRules, objections
from text2sql.score_table import markdown_table, score_rows
from text2sql.scores import TRAINED, Comparison, compare

SHOWN = 50
"""Questions that metadata shows at most."""
HISTORY = 100
"""Former champions that are remembered."""


@dg.asset(
    group_name="evaluation",
    partitions_def=training_runs,
    deps=[dev_scores],
    code_version=code_version("text2sql/model_card.py", "text2sql/score_table.py"),
    kinds={"markdown"},
)
def model_card(context: dg.AssetExecutionContext, root: ArtifactRoot) -> dg.MaterializeResult:
    """What the trained policy is, how it was made and what it scored; also beside its weights."""
    run = context.partition_key
    scores, training = read_scores(root, run), read_training(root, run)
    text = render_card(f"text2sql-{run}", scores, training)
    card, weights = evaluation_folder(root, run) / "README.md", Path(training["policy"])
    for file in (card, *([weights / "README.md"] if weights.is_dir() else [])):
        write_file(file, lambda part: part.write_text(text, encoding="utf-8"))
    table = markdown_table(score_rows(scores, ("all", "corrected", "subset")))
    return dg.MaterializeResult(
        metadata={"path": dg.MetadataValue.path(card), "scores": dg.MetadataValue.md(table)}
    )


@dg.asset_check(asset=model_card, blocking=True)
def promotion_gate(
    context: dg.AssetCheckExecutionContext, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """The candidate is not worse than base and champion, does not write, and is complete."""
    run = context.run.tags.get("dagster/partition") or last_evaluated(root)
    against = _against_champion(root, run)
    found = objections(read_scores(root, run), GateRules(), against)
    return dg.AssetCheckResult(
        passed=not found,
        description=" ".join(found) or f"Nothing speaks against the training run {run}.",
        metadata={"training run": run, "compared with": _champion_name(root)},
    )


@dg.asset_check(
    asset=model_card, blocking=True, additional_deps=[report_questions], pool=SAMPLING_POOL
)
def back_test(
    context: dg.AssetCheckExecutionContext,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> dg.AssetCheckResult:
    """The candidate answers no fewer verified report questions right than the champion."""
    end_with_parent()
    run = context.run.tags.get("dagster/partition") or last_evaluated(root)
    found = BackTester(root, reporting, policy, sandbox).verdict(run, context.run.run_id)
    shown = ("question_id", "before", "after", "sql_before", "sql_after")
    flips = [{name: str(flip[name])[:500] for name in shown} for flip in found.flips[:SHOWN]]
    return dg.AssetCheckResult(
        passed=found.passed,
        description=found.sentence,
        metadata={"training run": run, "flips": records(flips)},
    )


def _against_champion(root: ArtifactRoot, run: str) -> Comparison | None:
    """Compare a candidate with the champion on the same questions, where there is another."""
    champion = champion_record(root.path)
    scores = read_scores(root, run)
    same_data = champion.get("dataset") == scores.provenance["dataset"]
    if not same_data or champion["revision"] == scores.revisions[TRAINED]:
        return None
    outcomes = read_json(evaluation_folder(root, run) / "outcomes.json")
    keys = [question.key for question in load_questions(root.path, "dev")]
    return compare("greedy", "all", "", champion["outcomes"], outcomes["greedy"], keys)


def _champion_name(root: ArtifactRoot) -> str:
    return champion_record(root.path).get("training_run", "the base policy only")


class ChampionConfig(dg.Config):
    """Which training run is to take over."""

    training_run: str = Field(
        default="", description="Empty: the run's own partition, or the one evaluated last."
    )


@dg.asset(
    group_name="evaluation",
    deps=[dg.AssetDep(model_card, partition_mapping=dg.AllPartitionMapping())],
    code_version=code_version("assets/champion.py", "text2sql/promotion.py"),
    kinds={"json"},
)
def champion_policy(
    context: dg.AssetExecutionContext,
    config: ChampionConfig,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """The policy that answers every day: the last candidate that passed gate and back-test."""
    run = config.training_run or training_run_of(context) or last_evaluated(root)
    found = objections(read_scores(root, run), GateRules(), _against_champion(root, run))
    if found:
        raise Text2SqlError(f"The training run {run} cannot take over. {' '.join(found)}")
    test = BackTester(root, reporting, policy, sandbox).verdict(run, context.run_id)
    if not test.passed:
        raise Text2SqlError(f"The training run {run} cannot take over. {test.sentence}")
    champion = _promote(root, run, context.run_id)
    return dg.MaterializeResult(
        metadata={
            "training run": run,
            "policy": dg.MetadataValue.path(champion["policy"]),
            "policy revision": champion["revision"],
            "greedy": champion["greedy"],
            "champions before": len(champion["history"]),
            "back-test": test.sentence,
        },
        data_version=dg.DataVersion(champion["revision"]),
    )


def _promote(root: ArtifactRoot, run: str, dagster_run: str) -> dict[str, Any]:
    """Write the champion's record; the one before goes into its history, without outcomes."""
    before = champion_record(root.path)
    scores, training = read_scores(root, run), read_training(root, run)
    history = before.pop("history", [])
    before.pop("outcomes", None)
    if before and before["revision"] != training["policy_revision"]:
        history = [before, *history][:HISTORY]
    champion = {
        "policy": training["policy"],
        "revision": training["policy_revision"],
        "training_run": run,
        "base_revision": training["base_revision"],
        "dataset": scores.provenance["dataset"],
        "greedy": str(scores.find(TRAINED, "greedy")),
        "promoted_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "dagster_run": dagster_run,
        "history": history,
        "outcomes": read_json(evaluation_folder(root, run) / "outcomes.json")["greedy"],
    }
    write_json(root.path / CHAMPION, champion)
    return champion


def read_champion(root: ArtifactRoot) -> dict[str, Any]:
    """Return the champion's record; ``policy`` is its directory, ``revision`` its weights'."""
    champion = champion_record(root.path)
    if not champion:
        raise Text2SqlError("There is no champion policy yet: run the lifecycle job first.")
    return champion
