"""The scores of the base and the trained policy on the dev questions, and their report."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import dagster as dg

from assets.common.columns import MODEL_TEAM, columns_of
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import PARTITION_TAG, training_runs
from assets.common.sources import SAMPLING, SOURCES, version_for
from assets.data.known_issues import known_issues
from assets.data.strength import reward_strength
from assets.evaluation.config import ScoresConfig
from assets.evaluation.dev_rollouts import dev_rollouts
from assets.evaluation.view import describe_scores
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import evaluation_folder
from text2sql.common.json_files import write_json
from text2sql.common.provenance import code_version
from text2sql.evaluation.evaluate import Evaluation, evaluate, previous_greedy, scores_version
from text2sql.evaluation.scores import DEVELOPMENT, Score
from text2sql.evaluation.stored import PREVIOUS, last_evaluated


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
    """Greedy, single-turn, voting, pass@k and mean of both policies, by slice and by other rules.

    If there is a list of known issues, the corrected accuracy is shown beside the official one.
    """
    run = context.partition_key
    folder = evaluation_folder(root.path, run)
    previous = previous_greedy(root.path, run)
    what = Evaluation(run, "dev", folder, DEVELOPMENT, context.run_id, scoring_version())
    result = evaluate_split(what, config, root, sandbox)
    write_json(folder / PREVIOUS, previous)
    return result


def evaluate_split(
    what: Evaluation,
    config: ScoresConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
    more: Mapping[str, Any] | None = None,
) -> dg.MaterializeResult:
    """Evaluate stored rollouts on a split of the current dataset; ``more`` is added metadata."""
    with sandbox.open() if config.other_rules else nullcontext() as box:
        scores = evaluate(root.path, what, config.strong, box, config.timed_runs)
    return dg.MaterializeResult(
        metadata={**describe_scores(what.folder, scores), **(more or {})},
        data_version=dg.DataVersion(scores_version(scores)),
    )


def scoring_version() -> str:
    """Return the version of the code that samples and scores."""
    return code_version(*SOURCES["dev_scores"], *SAMPLING)


def evaluated_run(context: dg.AssetCheckExecutionContext, root: ArtifactRoot) -> str:
    """Return the training run that a check is about: its partition's, else the newest scores'."""
    return context.run.tags.get(PARTITION_TAG) or last_evaluated(root.path)
