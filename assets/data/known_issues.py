"""Known issues: a list of wrong and ambiguous gold queries that people keep beside the data."""

from collections import Counter

import dagster as dg
import pandas as pd
from pydantic import Field

from assets.checks.view import table
from assets.common.columns import named_columns
from assets.common.failures import fails_in_a_sentence
from assets.common.sources import version_for
from assets.data.bird import data_asset, gold_results
from assets.data.own_dataset import own_current
from resources.artifact_root import ArtifactRoot
from resources.forms import Form
from resources.sandbox import SandboxResource
from text2sql.evaluation.known_issues import renew_corrections
from text2sql.sandbox import Limits


class KnownIssuesConfig(Form):
    """Which list of known issues to use."""

    file: str = Field(
        default="",
        description="The YAML or JSON list (docs/known-issues.md has the format); empty for none: "
        "then there is official accuracy only.",
    )
    seconds: float = Field(
        default=30.0, gt=0, le=3600, description="Time limit of one gold query of the list."
    )


@data_asset(
    deps=[gold_results],
    code_version=version_for("known_issues"),
    kinds={"json"},
    metadata=named_columns(
        ("key", "str", "The question's key."),
        ("issue", "object", "Kind, reason, source and corrected gold queries."),
        ("golds", "list", "The results of those gold queries."),
    ),
)
@fails_in_a_sentence
def known_issues(
    context: dg.AssetExecutionContext,
    config: KnownIssuesConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """Corrected and second gold queries with their results, and flagged questions.

    The dataset stays as it is: only the corrected accuracy, beside the official one, uses them.
    """
    dataset, limits = own_current(context, root.path), Limits(seconds=config.seconds)
    with sandbox.open() as box:
        corrections = renew_corrections(root.path, dataset, config.file, box, limits)
    issues = {key: one.issue for key, one in corrections.found.items()}
    rows = [(key, one.kind, one.reason, one.source) for key, one in issues.items()]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(corrections.fingerprint),
        metadata={
            "issues": len(issues),
            "by kind": dict(Counter(issue.kind for issue in issues.values())),
            "for unused questions": corrections.unused,
            "list": table(pd.DataFrame(rows, columns=["key", "kind", "reason", "source"])),
        },
    )
