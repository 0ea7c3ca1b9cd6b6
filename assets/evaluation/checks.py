"""What must be true of a dev evaluation: nothing is missing, lost, written or far from before."""

import dagster as dg
from pydantic import Field

from assets.common.failures import fails_in_a_sentence
from assets.evaluation.dev_scores import dev_scores, evaluated_run, read_previous, read_scores
from assets.evaluation.view import partial_settings
from resources.forms import Form
from resources.paths import ArtifactRoot
from text2sql.evaluation.scores import TRAINED

WARN = dg.AssetCheckSeverity.WARN


class InfrastructureBound(Form):
    """How much the infrastructure may spoil."""

    most: float = Field(
        default=0.01, ge=0, le=1, description="The share of a policy's rollouts that may be lost."
    )


class WriteBound(Form):
    """How often a policy may try to write."""

    most: float = Field(
        default=0.01, ge=0, le=1, description="The share of the trained policy's rollouts."
    )


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def scores_complete(
    context: dg.AssetCheckExecutionContext, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """Every question has a valid result of both policies in every setting that was asked for."""
    run = evaluated_run(context, root)
    scores = read_scores(root, run)
    missing = {name: count for name, count in scores.missing.items() if count}
    words = ", ".join(f"{name} {count}" for name, count in missing.items())
    return dg.AssetCheckResult(
        passed=not missing,
        severity=WARN,
        description=f"Questions without a valid result: {words or 'none'}, of {scores.questions}.",
        metadata={"training run": run, **partial_settings(scores)},
    )


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def little_infrastructure_lost(
    context: dg.AssetCheckExecutionContext, config: InfrastructureBound, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """The infrastructure spoilt few rollouts: what it spoils is left out of every number."""
    run = evaluated_run(context, root)
    shares = read_scores(root, run).infrastructure
    words = ", ".join(f"{name} {share:.2%}" for name, share in shares.items())
    return dg.AssetCheckResult(
        passed=max(shares.values(), default=0.0) <= config.most,
        severity=WARN,
        description=f"Rollouts that were lost: {words or 'unknown'}; at most {config.most:.2%}.",
        metadata={"training run": run, **shares},
    )


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def few_write_attempts(
    context: dg.AssetCheckExecutionContext, config: WriteBound, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """The trained policy hardly ever tries to write; the base's rate stands beside it."""
    run = evaluated_run(context, root)
    rates = read_scores(root, run).write_rate
    words = ", ".join(f"{name} {rate:.2%}" for name, rate in rates.items())
    return dg.AssetCheckResult(
        passed=rates[TRAINED] <= config.most,
        severity=WARN,
        description=f"Rollouts that tried to write: {words}; at most {config.most:.2%}.",
        metadata={"training run": run, **rates},
    )


@dg.asset_check(asset=dev_scores)
@fails_in_a_sentence
def accuracy_as_before(
    context: dg.AssetCheckExecutionContext, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """Greedy accuracy is not below the interval of the last evaluation: this run's, or a champion.

    A warning only: the promotion gate compares the questions one by one.
    """
    run = evaluated_run(context, root)
    scores, before = read_scores(root, run), read_previous(root, run)
    greedy = scores.find(TRAINED, "greedy")
    if not before or greedy is None:
        words, passed = "There is no evaluation before this one.", True
    elif before["dataset"] != scores.provenance.get("dataset"):
        words, passed = f"{before['who']} was evaluated on other data: {before['dataset']}.", True
    else:
        ends = f"[{100 * before['low']:.1f}, {100 * before['high']:.1f}]"
        words = f"{greedy}; {before['who']} had the interval {ends}."
        passed = greedy.value >= before["low"]
    return dg.AssetCheckResult(
        passed=passed,
        severity=WARN,
        description=words[0].upper() + words[1:],
        metadata={"training run": run},
    )
