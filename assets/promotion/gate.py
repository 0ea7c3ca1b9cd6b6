"""The promotion gate: the blocking checks that a training run passes before it may take over."""

from collections.abc import Iterator

import dagster as dg

from assets.common.failures import fails_in_a_sentence
from assets.common.plots import records
from assets.common.pools import SAMPLING_POOL
from assets.evaluation.dev_scores import evaluated_run
from assets.promotion.back_test import back_test_run
from assets.promotion.champion import model_card
from resources.artifact_root import ArtifactRoot
from resources.gate import PromotionGate
from resources.policy import PolicyResource
from resources.processes import end_step_with_run
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from resources.step_pods import sampling_pod
from text2sql.evaluation.promotion.candidate import read_candidate, rival_of
from text2sql.evaluation.promotion.champion import champion_record, run_of
from text2sql.evaluation.promotion.gate import ACCURACY, BACK_TEST, COMPLETE, WRITES, run_checks

SHOWN = 50
"""Questions that metadata shows at most."""
DESCRIPTIONS = {
    ACCURACY: "The candidate is not worse than the base and the champion beyond noise (McNemar's "
    "exact test on the same questions), and can be compared with them.",
    WRITES: "Hardly any rollout of the candidate attempts a write.",
    COMPLETE: "The candidate's evaluation lacks hardly any question, and infrastructure failures "
    "invalidated hardly any rollout.",
}


@dg.multi_asset_check(
    specs=[
        dg.AssetCheckSpec(name, asset=model_card, description=words, blocking=True)
        for name, words in DESCRIPTIONS.items()
    ]
)
@fails_in_a_sentence
def promotion_gate(
    context: dg.AssetCheckExecutionContext, root: ArtifactRoot, gate: PromotionGate
) -> Iterator[dg.AssetCheckResult]:
    """The candidate is not worse than base and champion, does not write, and is evaluated."""
    run, champion = evaluated_run(context, root), champion_record(root.path)
    candidate = read_candidate(root.path, run)
    who = run_of(champion) or champion.get("policy", "none yet")
    about = {"training run": run, "champion": who}
    for finding in run_checks(candidate, rival_of(root.path, champion, candidate), gate.rules()):
        yield dg.AssetCheckResult(
            asset_key=model_card.key,
            check_name=finding.check,
            passed=bool(finding.passed),
            description=finding.sentence,
            metadata=about,
        )


@dg.asset_check(
    asset=model_card,
    name=BACK_TEST,
    blocking=True,
    additional_deps=["report_questions"],
    pool=SAMPLING_POOL,
    op_tags=sampling_pod(),
)
@fails_in_a_sentence
def back_test(
    context: dg.AssetCheckExecutionContext,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> dg.AssetCheckResult:
    """The candidate answers no fewer verified report questions right than the champion."""
    end_step_with_run()
    run = evaluated_run(context, root)
    found = back_test_run(root.path, run, context.run.run_id, reporting, policy, sandbox)
    shown = ("question_id", "before", "after", "sql_before", "sql_after")
    flips = [{name: str(flip[name])[:500] for name in shown} for flip in found.flips[:SHOWN]]
    return dg.AssetCheckResult(
        passed=found.passed,
        description=found.sentence,
        metadata={"training run": run, "flips": records(flips)},
    )
