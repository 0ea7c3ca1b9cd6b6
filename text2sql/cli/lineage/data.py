"""The links below a training run: the rollouts that chose its prompts, and the dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from text2sql.cli.lineage.chain import Link
from text2sql.common.artifacts import dataset_file, file_digests
from text2sql.datasets.pocket.corpus import MANIFEST
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.datasets.reading.layout import SplitLayout, fingerprint
from text2sql.rollouts.cost import PACE


def filter_link(root: Path, about: Mapping[str, Any]) -> Link:
    """Return the rollouts of the difficulty filter, from what is recorded of the prompts."""
    name = str(about.get("rollouts", ""))
    link = Link("filter's rollouts", name)
    link.facts = {
        "policy": about.get("policy"),
        "policy revision": about.get("policy_revision"),
        "prompt revision": about.get("prompt_revision"),
        "samples": about.get("samples"),
        "temperature": about.get("temperature"),
        "Dagster runs": _sampling_runs(link, root / "rollouts" / name),
    }
    if name and not any((root / "rollouts" / name).glob("*.jsonl")):
        link.problems.append(f"{root / 'rollouts' / name} is missing or empty.")
    return link


def _sampling_runs(link: Link, folder: Path) -> list[str]:
    """Return the Dagster runs that drew a folder's rollouts last, one for each shard."""
    paces = [link.record(file) for file in sorted(folder.glob(f"*{PACE}"))]
    return sorted({str(pace["run_id"]) for pace in paces if "run_id" in pace})


def dataset_link(root: Path, dataset: str) -> Link:
    """Return a dataset: where it came from, where it lies, and whether it is still the same."""
    link = Link("dataset", dataset)
    place = dataset_file(root, dataset)
    archive = link.record(place)
    if not archive:
        return link
    try:
        splits = {name: SplitLayout.from_dict(name, row) for name, row in archive["splits"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        link.problems.append(f"{place} is no record of a dataset: it lacks {error}.")
        return link
    link.facts = {"source": archive.get("source"), "folder": archive.get("folder")}
    made = link.record(Path(str(archive.get("folder"))) / MANIFEST, needed=False)
    link.facts["generated with seed"] = made.get("seed")
    for name, layout in splits.items():
        link.facts[f"{name} questions"] = str(layout.questions)
        link.facts[f"{name} databases"] = len(layout.databases)
    with link.noting():
        digests = Digests(file_digests(root))
        now = combine_digests({n: fingerprint(layout, digests) for n, layout in splits.items()})
        if now != dataset:
            link.problems.append(
                f"The dataset in {archive.get('folder')} was changed since: its fingerprint is "
                f"{now} now."
            )
    return link
