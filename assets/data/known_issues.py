"""Known issues: a list of wrong and ambiguous gold queries that people keep beside the data."""

from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from assets.checks.view import table
from assets.common.columns import DATA_TEAM, named_columns
from assets.common.sources import version_for
from assets.common.told import told
from assets.common.versions import fingerprint
from assets.data import stored as data
from assets.data.bird import gold_results
from assets.data.own_dataset import own_current
from resources.forms import Form
from resources.paths import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.common.json_files import read_if_there, write_json
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.errors import Text2SqlError
from text2sql.evaluation.known_issues import (
    Correction,
    DatasetIssues,
    issues_of,
    read_issues,
    run_corrections,
)
from text2sql.sandbox import Limits, Sandbox

CORRECTIONS = "known_issues.json"


class KnownIssuesConfig(Form):
    """Which list of known issues holds."""

    file: str = Field(
        default="",
        description="The YAML or JSON list (docs/known-issues.md has the format); empty: none, "
        "and there is official accuracy only.",
    )
    seconds: float = Field(
        default=30.0, gt=0, le=3600, description="Limit of one gold query of the list."
    )


@dg.asset(
    group_name="bird",
    deps=[gold_results],
    owners=DATA_TEAM,
    code_version=version_for("known_issues"),
    kinds={"json"},
    metadata=named_columns(
        ("key", "str", "The question's key."),
        ("issue", "object", "Kind, reason, source and corrected gold queries."),
        ("golds", "list", "What each of those gold queries returns."),
    ),
)
@told
def known_issues(
    context: dg.AssetExecutionContext,
    config: KnownIssuesConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """Corrected and second gold queries with their results, and flagged questions.

    The dataset stays as it is: only the corrected accuracy, beside the official one, looks here.
    """
    archive = own_current(context, root.path)
    datasets = read_issues(Path(config.file).expanduser()) if config.file else []
    found: dict[str, Correction] = {}
    unused = 0
    if datasets:
        limits = Limits(seconds=config.seconds)
        with sandbox.open() as box:
            found, unused = _corrections(root.path, archive, datasets, box, limits)
    rows = [correction.to_dict() for correction in found.values()]
    content = fingerprint(rows=[_content(row) for row in rows])
    about = {"file": config.file, "fingerprint": content, "corrections": rows}
    write_json(data.dataset_folder(root.path, archive) / CORRECTIONS, about)
    kinds = Counter(correction.issue.kind for correction in found.values())
    return dg.MaterializeResult(
        data_version=dg.DataVersion(content),
        metadata={
            "issues": len(found),
            "by kind": dict(kinds),
            "of questions that are not used": unused,
            "list": table(_frame(found)),
        },
    )


def _corrections(
    root: Path,
    archive: data.Archive,
    datasets: list[DatasetIssues],
    box: Sandbox,
    limits: Limits,
) -> tuple[dict[str, Correction], int]:
    """Run the issues of each split that the list has; count those of questions not in use."""
    found: dict[str, Correction] = {}
    listed = 0
    issues = {
        split: issues_of(datasets, layout.questions, _keys(root, split))
        for split, layout in archive.splits.items()
    }
    if all(one is None for one in issues.values()):
        raise _not_listed(archive.splits)
    for split, of_split in issues.items():
        questions = data.load_questions(root, split)
        found |= run_corrections(of_split or {}, questions, box, limits)
        listed += len(of_split or {})
    return found, listed - len(found)


def _keys(root: Path, split: str) -> list[str]:
    return [row["question"]["key"] for row in data.load_rows(root, split)]


def _not_listed(splits: dict[str, SplitLayout]) -> Text2SqlError:
    files = ", ".join(str(layout.questions) for layout in splits.values())
    return Text2SqlError(
        f"The list of known issues is about other data: it has no entry with the sha256 of {files} "
        "(sha256sum prints it); correct questions_sha256, or do without the list."
    )


def _content(row: dict[str, Any]) -> list[Any]:
    """Return what a correction says, without the time that its queries took."""
    return [row["key"], row["issue"], [gold["digest"] for gold in row["golds"]]]


def _frame(found: dict[str, Correction]) -> pd.DataFrame:
    rows = [
        {"key": key, "kind": one.issue.kind, "reason": one.issue.reason, "source": one.issue.source}
        for key, one in found.items()
    ]
    return pd.DataFrame(rows, columns=["key", "kind", "reason", "source"])


def load_corrections(root: Path, split: str) -> dict[str, Correction]:
    """Return the corrections of a split by question key; empty where there is no list."""
    file = data.dataset_folder(root, data.load_current(root)) / CORRECTIONS
    rows = read_if_there(file).get("corrections", [])
    corrections = map(Correction.from_dict, rows)
    return {one.key: one for one in corrections if one.key.startswith(f"{split}/")}


def list_version(root: Path) -> str:
    """Name the list of known issues that holds, by file and content; empty without one."""
    about = read_if_there(data.dataset_folder(root, data.load_current(root)) / CORRECTIONS)
    return f"{Path(about['file']).name} {about['fingerprint']}" if about.get("file") else ""
