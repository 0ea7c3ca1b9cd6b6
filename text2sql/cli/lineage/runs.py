"""The chain of a training run: its record, settings, start, prompts, rollouts and data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from text2sql.cli.lineage.chain import Link
from text2sql.common.artifacts import (
    dataset_file,
    evaluation_folder,
    file_digests,
    rollouts_folder,
    training_folder,
    training_record_file,
)
from text2sql.common.provenance import file_version
from text2sql.datasets.pocket.corpus import MANIFEST
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.datasets.reading.layout import SplitLayout, fingerprint
from text2sql.evaluation.promotion.champion import ADOPTED_RUN
from text2sql.policy.places import is_served
from text2sql.policy.weights import directory_revision
from text2sql.rollouts.cost import PACE

_HASHED_BYTES = 2_000_000_000
_STEP = re.compile(r"(?:checkpoint-|step_)(\d+)")
Record = dict[str, Any]


def run_links(
    root: Path, run: str, revision: str = "", later: frozenset[str] = frozenset()
) -> list[Link]:
    """Return the links from a training run down to its data and the base policy.

    ``revision`` selects the version of the run that made this policy: a run that was trained again
    under its name has several. ``later`` are the runs that were trained from it. An adopted
    champion has no links here.
    """
    if run == ADOPTED_RUN:
        return []
    link = Link("training run", run)
    record = _record_of(link, root, run, revision)
    links = [link]
    made = f"{run} {record.get('policy_revision')}"
    if record and made in later:
        link.problems.append(f"The training run {made} would have been trained from itself.")
    elif record:
        with link.noting():
            link.facts = _facts(record)
            _check(link, record)
            links += [_settings_link(record), *_data_links(root, record)]
            links += _start_links(root, record, later | {made})
    return links


def _record_of(link: Link, root: Path, run: str, revision: str) -> Record:
    """Return the record of the run, of an earlier version if the revision says so."""
    folder = training_folder(root, run)
    if not folder.is_dir():
        link.problems.append(f"{folder} is missing, so the chain of this training run ends here.")
        return {}
    record = link.record(training_record_file(root, run))
    if not revision or record.get("policy_revision") == revision:
        return record
    for file in sorted(folder.glob("*/record.json")):
        earlier = link.record(file)
        if earlier.get("policy_revision") == revision:
            return earlier
    link.problems.append(f"No record below {folder} has the policy revision {revision}.")
    return {}


def _facts(record: Record) -> Record:
    reported = record.get("reported", {})
    return {
        "policy": record.get("policy"),
        "policy revision": record.get("policy_revision"),
        "backend": record.get("backend"),
        "seconds": record.get("seconds"),
        "checkpoints": checkpoints(Path(str(record.get("policy"))).parent),
        "code version": record.get("code_version"),
        "commit": commit_of(record),
        "release": record.get("code", {}).get("text2sql"),
        "prime-rl commit": reported.get("prime-rl commit"),
        "prompt revision": record.get("prompt_revision"),
        "Dagster run": record.get("dagster_run"),
    }


def commit_of(record: Mapping[str, Any]) -> str:
    """Name the commit that a record was made with, and whether the sources differed from it."""
    code = record.get("code") or {}
    return f"{code['commit']}{', with changes' if code.get('dirty') else ''}" if code else ""


def checkpoints(folder: Path) -> list[int]:
    """Return the steps of a training run's remaining checkpoints."""
    places = [*(folder / "checkpoints").glob("*"), *(folder / "run" / "checkpoints").glob("*")]
    steps = (_STEP.fullmatch(place.name) for place in places if place.is_dir())
    return sorted({int(step[1]) for step in steps if step})


def _check(link: Link, record: Record) -> None:
    """Note if the weights or the prompts are not those that the record names."""
    policy = str(record.get("policy", ""))
    if not is_served(policy):
        with link.noting():
            _check_weights(link, Path(policy), str(record.get("policy_revision")))
    kept = Path(policy).parent / "prompts"
    if record.get("prompts_version"):
        with link.noting():
            found = file_version(kept / "prompts.jsonl", kept / "golds.jsonl")
            if found != record["prompts_version"]:
                link.problems.append(f"The prompts in {kept} are not those of the run.")


def _check_weights(link: Link, policy: Path, revision: str) -> None:
    if not policy.is_dir():
        link.problems.append(f"The weights are gone from {policy}.")
        return
    size = sum(file.stat().st_size for file in policy.glob("*.safetensors"))
    if size > _HASHED_BYTES:
        link.facts["weights"] = f"not hashed because of their size ({size / 1e9:.1f} GB)"
    elif (found := directory_revision(policy)) != revision:
        link.problems.append(
            f"The weights in {policy} have the revision {found}; {revision} was recorded."
        )


def _settings_link(record: Record) -> Link:
    settings = record.get("settings", {})
    facts = {"config hash": record.get("config_version"), "seed": settings.get("seed")}
    known = "changed_settings" in record
    differing: Record = record["changed_settings"] if known else settings
    facts |= {f"set: {name}": value for name, value in differing.items()}
    return Link("config", str(record.get("backend", "")), facts)


def _start_links(root: Path, record: Record, later: frozenset[str]) -> list[Link]:
    """Return the policy that the run started from, and the chain of the run that made it."""
    start = record.get("start") or {"from": "base", "policy": record.get("base")}
    revision = record.get("start_revision") or record.get("base_revision")
    facts = {"policy": start.get("policy"), "revision": revision}
    link = Link("started from", str(start.get("from")), facts)
    if not (run := start.get("training_run")):
        return [link]
    link.facts["training run"] = run
    return [link, *run_links(root, run, str(revision), later)]


def _data_links(root: Path, record: Record) -> list[Link]:
    about = record.get("prompts_about") or {}
    prompts = Link("prompts", str(record.get("prompts_version", "")))
    prompts.facts = {
        "prompts": record.get("prompts"),
        "content fingerprint": about.get("fingerprint"),
        "of questions": about.get("asked"),
    }
    prompts.facts |= {
        f"filter: {name}": about.get(name)
        for name in ("least_solved", "most_solved", "minimum_valid", "minimum_strength", "seed")
    }
    prompts.facts |= {"commit": commit_of(about), "Dagster run": about.get("dagster_run")}
    links = [prompts]
    if about:
        links += [filter_link(root, about), dataset_link(root, str(about.get("dataset")))]
    return links


def known_runs(root: Path) -> list[str]:
    """Return the training runs that have a record or an evaluation below an artifact root."""
    trained = {path.name for path in training_folder(root).glob("*") if path.is_dir()}
    scored = {path.parent.name for path in evaluation_folder(root).glob("*/scores.json")}
    return sorted(trained | scored)


def filter_link(root: Path, about: Mapping[str, Any]) -> Link:
    """Return the rollouts of the difficulty filter, from the record of the prompts."""
    name = str(about.get("rollouts", ""))
    folder = rollouts_folder(root, name)
    link = Link("filter's rollouts", name)
    link.facts = {
        "policy": about.get("policy"),
        "policy revision": about.get("policy_revision"),
        "prompt revision": about.get("prompt_revision"),
        "samples": about.get("samples"),
        "temperature": about.get("temperature"),
        "Dagster runs": _sampling_runs(link, folder),
    }
    if name and not any(folder.glob("*.jsonl")):
        link.problems.append(f"{folder} is missing or empty.")
    return link


def _sampling_runs(link: Link, folder: Path) -> list[str]:
    """Return the Dagster runs that last drew a folder's rollouts, one for each shard."""
    paces = [link.record(file) for file in sorted(folder.glob(f"*{PACE}"))]
    return sorted({str(pace["run_id"]) for pace in paces if "run_id" in pace})


def dataset_link(root: Path, dataset: str) -> Link:
    """Return a dataset: its source, its place, and whether it has changed."""
    link = Link("dataset", dataset)
    place = dataset_file(root, dataset)
    archive = link.record(place)
    if not archive:
        return link
    try:
        splits = {name: SplitLayout.from_dict(name, row) for name, row in archive["splits"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        link.problems.append(f"{place} is not a record of a dataset: it lacks {error}.")
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
                f"The dataset in {archive.get('folder')} has changed: its fingerprint is now {now}."
            )
    return link
