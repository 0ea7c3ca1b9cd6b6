"""What a dev evaluation should satisfy: complete, few failures and writes, no worse than before."""

from collections.abc import Mapping

import dagster as dg
from pydantic import Field

from assets.common.failures import fails_in_a_sentence
from assets.evaluation.dev_scores import dev_scores, evaluated_run
from resources.artifact_root import ArtifactRoot
from resources.forms import Form
from text2sql.common.artifacts import evaluation_folder
from text2sql.common.json_files import read_if_there
from text2sql.evaluation.scores import TRAINED
from text2sql.evaluation.stored import PREVIOUS, read_scores


class InfrastructureBound(Form):
    """How many rollouts infrastructure failures may invalidate."""

    most: float = Field(default=0.01, ge=0, le=1, description="Share of a policy's rollouts.")


class WriteBound(Form):
    """How often a policy may attempt a write."""

    most: float = Field(default=0.01, ge=0, le=1, description="Share of the policy's rollouts.")


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def scores_complete(
    context: dg.AssetCheckExecutionContext, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """Every question has a valid result of both policies in every setting that it was asked in."""
    run = evaluated_run(context, root)
    scores = read_scores(root.path, run)
    missing = ", ".join(f"{name} {count}" for name, count in scores.missing.items() if count)
    words = f"Questions without a valid result: {missing or 'none'}, of {scores.questions}."
    return _warning(not missing, words, run, scores.partial_settings(TRAINED))


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def little_infrastructure_lost(
    context: dg.AssetCheckExecutionContext, config: InfrastructureBound, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """Infrastructure failures invalidated few rollouts, which no number counts."""
    run = evaluated_run(context, root)
    shares = read_scores(root.path, run).infrastructure
    passed = max(shares.values(), default=0.0) <= config.most
    words = f"Rollouts that were lost: {_shares(shares) or 'unknown'} (limit {config.most:.2%})."
    return _warning(passed, words, run, shares)


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def few_write_attempts(
    context: dg.AssetCheckExecutionContext, config: WriteBound, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """The trained policy hardly ever attempts a write; the base's rate is shown beside it."""
    run = evaluated_run(context, root)
    rates = read_scores(root.path, run).write_rate
    words = f"Rollouts that attempted a write: {_shares(rates)} (limit {config.most:.2%})."
    return _warning(rates[TRAINED] <= config.most, words, run, rates)


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def accuracy_as_before(
    context: dg.AssetCheckExecutionContext, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """Greedy accuracy is not below the last evaluation's interval: this run's, or the champion's.

    A warning only: the promotion gate compares the questions one by one.
    """
    run = evaluated_run(context, root)
    scores = read_scores(root.path, run)
    before = read_if_there(evaluation_folder(root.path, run) / PREVIOUS)
    greedy = scores.find(TRAINED, "greedy")
    if not before or greedy is None:
        words, passed = "No evaluation before this one.", True
    elif before["dataset"] != scores.provenance.get("dataset"):
        words, passed = f"{before['who']} was evaluated on other data: {before['dataset']}.", True
    else:
        ends = f"[{100 * before['low']:.1f}, {100 * before['high']:.1f}]"
        words = f"{greedy}; {before['who']} had the interval {ends}."
        passed = greedy.value >= before["low"]
    return _warning(passed, words[0].upper() + words[1:], run, {})


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.2%}" for name, share in shares.items())


def _warning(
    passed: bool, words: str, run: str, metadata: Mapping[str, str | float]
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=words,
        metadata={"training run": run, **metadata},
    )
