"""The scores of the base and the trained policy on the dev questions, and their report."""

from typing import Any

import dagster as dg

from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import PARTITION_TAG, training_runs
from assets.common.sources import version_for
from assets.data.known_issues import known_issues
from assets.data.strength import reward_strength
from assets.evaluation.dev_rollouts import dev_rollouts, evaluation_folder
from assets.evaluation.evaluate import Evaluation, ScoresConfig, evaluate, scores_version
from assets.evaluation.view import describe_scores
from resources.paths import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.common.json_files import read_if_there, write_json
from text2sql.errors import Text2SqlError
from text2sql.evaluation.compare import EVALUATIONS
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.evaluation.report.words import champion_name
from text2sql.evaluation.scores import DEVELOPMENT, TRAINED, Score, Scores

PREVIOUS = "previous.json"


def read_scores(root: ArtifactRoot, run: str) -> Scores:
    """Return the scores of a training run."""
    row = read_if_there(evaluation_folder(root, run) / "scores.json")
    if not row:
        raise Text2SqlError(f"The training run {run} has no scores: materialize dev_scores first.")
    return Scores.from_dict(row)


@dg.asset(
    group_name="evaluation",
    partitions_def=training_runs,
    deps=[dev_rollouts, reward_strength, known_issues],
    owners=MODEL_TEAM,
    code_version=version_for("dev_scores"),
    kinds={"json"},
    metadata=columns_of(Score),
)
@fails_in_a_sentence
def dev_scores(
    context: dg.AssetExecutionContext,
    config: ScoresConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """Greedy, single-turn, voting, pass@k and mean of both policies, by part and by other rules.

    Where there are known issues, the corrected accuracy stands beside the official one.
    """
    run = context.partition_key
    folder = evaluation_folder(root, run)
    previous = _previous(root, run)
    scores = evaluate(context, Evaluation(run, "dev", folder, DEVELOPMENT), config, root, sandbox)
    write_json(folder / PREVIOUS, previous)
    return dg.MaterializeResult(
        metadata=describe_scores(folder, scores),
        data_version=dg.DataVersion(scores_version(scores)),
    )


def _previous(root: ArtifactRoot, run: str) -> dict[str, Any]:
    """Return the greedy accuracy before this evaluation: of the same run, else the champion's."""
    folder = evaluation_folder(root, run)
    before, who = read_if_there(folder / "scores.json"), f"the training run {run} before"
    champion = champion_record(root.path)
    if not before and champion:
        champion_run = str(champion["training_run"])
        before = read_if_there(evaluation_folder(root, champion_run) / "scores.json")
        who = champion_name(champion_run)
    scores = Scores.from_dict(before) if before else None
    greedy = scores.find(TRAINED, "greedy") if scores else None
    if scores is None or greedy is None:
        return {}
    dataset = scores.provenance.get("dataset", "")
    return {"who": who, "dataset": dataset, "low": greedy.low, "high": greedy.high}


def evaluated_run(context: dg.AssetCheckExecutionContext, root: ArtifactRoot) -> str:
    """Return the training run that a check is about: its partition's, else the newest scores'."""
    return context.run.tags.get(PARTITION_TAG) or last_evaluated(root)


def last_evaluated(root: ArtifactRoot) -> str:
    """Return the training run whose scores are the newest."""
    scores = root.folder(EVALUATIONS).glob("*/scores.json")
    newest = max(scores, key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        raise Text2SqlError("No training run has been evaluated: materialize dev_scores first.")
    return newest.parent.name


def read_previous(root: ArtifactRoot, run: str) -> dict[str, Any]:
    """Return what a run's evaluation is held against: who, dataset, low and high; or nothing."""
    return read_if_there(evaluation_folder(root, run) / PREVIOUS)
