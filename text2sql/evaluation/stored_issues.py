"""Known issues of the current dataset, with the results of their gold queries, as stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.provenance import fingerprint
from text2sql.datasets.stored import (
    Dataset,
    dataset_folder,
    load_current,
    load_questions,
    load_rows,
)
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


@dataclass(frozen=True)
class Corrections:
    """The corrections of a dataset by question key, and a fingerprint of their content.

    ``unused`` counts the issues of questions that are not in use.
    """

    found: dict[str, Correction]
    unused: int
    fingerprint: str


def renew_corrections(
    root: Path, dataset: Dataset, file: str, sandbox: Sandbox, limits: Limits
) -> Corrections:
    """Run the gold queries of a list of known issues and store their results.

    Without a ``file`` there are no corrections. Raises Text2SqlError for a list about other data.
    """
    issues = read_issues(Path(file).expanduser()) if file else []
    found, listed = _run(root, dataset, issues, sandbox, limits) if issues else ({}, 0)
    rows = [correction.to_dict() for correction in found.values()]
    # Without the time that the queries took, which differs from run to run.
    content = fingerprint(
        rows=[[row["key"], row["issue"], [gold["digest"] for gold in row["golds"]]] for row in rows]
    )
    about = {"file": file, "fingerprint": content, "corrections": rows}
    write_json(dataset_folder(root, dataset) / CORRECTIONS, about)
    return Corrections(found, listed - len(found), content)


def _run(
    root: Path,
    dataset: Dataset,
    datasets: Sequence[DatasetIssues],
    sandbox: Sandbox,
    limits: Limits,
) -> tuple[dict[str, Correction], int]:
    """Return the corrections, and how many issues the list has for the dataset's splits."""
    issues = {
        split: issues_of(
            datasets,
            layout.questions,
            [row["question"]["key"] for row in load_rows(root, split)],
        )
        for split, layout in dataset.splits.items()
    }
    if all(one is None for one in issues.values()):
        files = ", ".join(str(layout.questions) for layout in dataset.splits.values())
        raise Text2SqlError(
            "The list of known issues is about other data: it has no entry with the sha256 of "
            f"{files} (sha256sum prints it); correct questions_sha256, or do without the list."
        )
    found: dict[str, Correction] = {}
    for split, of_split in issues.items():
        found |= run_corrections(of_split or {}, load_questions(root, split), sandbox, limits)
    return found, sum(len(one or {}) for one in issues.values())


def load_corrections(root: Path, split: str) -> dict[str, Correction]:
    """Return the corrections of a split by question key; empty without a list."""
    corrections = map(Correction.from_dict, _stored(root).get("corrections", []))
    return {one.key: one for one in corrections if one.key.startswith(f"{split}/")}


def list_version(root: Path) -> str:
    """Return the name and content of the current list of known issues; empty without one."""
    about = _stored(root)
    return f"{Path(about['file']).name} {about['fingerprint']}" if about.get("file") else ""


def _stored(root: Path) -> dict[str, Any]:
    return read_if_there(dataset_folder(root, load_current(root)) / CORRECTIONS)
