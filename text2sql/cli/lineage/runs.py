"""The chain of a training run: its record, settings, start, prompts, rollouts and data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from text2sql.cli.lineage.chain import Link, facts_of
from text2sql.common import artifacts
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
    folder = artifacts.training_folder(root, run)
    if not folder.is_dir():
        link.problems.append(f"{folder} is missing, so the chain of this training run ends here.")
        return {}
    record = link.record(artifacts.training_record_file(root, run))
    if not revision or record.get("policy_revision") == revision:
        return record
    for file in sorted(folder.glob("*/record.json")):
        earlier = link.record(file)
        if earlier.get("policy_revision") == revision:
            return earlier
    link.problems.append(f"No record below {folder} has the policy revision {revision}.")
    return {}


def _facts(record: Record) -> Record:
    names = ("policy", "policy_revision", "backend", "seconds", "code_version", "prompt_revision")
    folder = Path(str(record.get("policy"))).parent
    places = [*(folder / "checkpoints").glob("*"), *(folder / "run" / "checkpoints").glob("*")]
    steps = (_STEP.fullmatch(place.name) for place in places if place.is_dir())
    return facts_of(record, *names, "dagster_run") | {
        "checkpoints": sorted({int(step[1]) for step in steps if step}),
        "commit": commit_of(record),
        "release": record.get("code", {}).get("text2sql"),
        "prime-rl commit": record.get("reported", {}).get("prime-rl commit"),
    }


def commit_of(record: Mapping[str, Any]) -> str:
    """Name the commit that a record was made with, and whether the sources differed from it."""
    code = record.get("code") or {}
    return f"{code['commit']}{', with changes' if code.get('dirty') else ''}" if code else ""


def _check(link: Link, record: Record) -> None:
    """Note if the weights or the prompts are not those that the record names."""
    policy, revision = Path(str(record.get("policy", ""))), record.get("policy_revision")
    with link.noting():
        size = sum(file.stat().st_size for file in policy.glob("*.safetensors"))
        if size > _HASHED_BYTES:
            link.facts["weights"] = f"not hashed because of their size ({size / 1e9:.1f} GB)"
        elif policy.is_dir() and (found := directory_revision(policy)) != revision:
            link.problems.append(
                f"The weights in {policy} have the revision {found}; {revision} was recorded."
            )
        elif not (policy.is_dir() or is_served(str(record.get("policy", "")))):
            link.problems.append(f"The weights are gone from {policy}.")
    prompts = policy.parent / "prompts"
    if record.get("prompts_version"):
        with link.noting():
            found = file_version(prompts / "prompts.jsonl", prompts / "golds.jsonl")
            if found != record["prompts_version"]:
                link.problems.append(f"The prompts in {prompts} are not those of the run.")


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
    bounds = ("least_solved", "most_solved", "minimum_valid", "minimum_strength", "seed")
    prompts.facts = {
        "prompts": record.get("prompts"),
        "content fingerprint": about.get("fingerprint"),
        "of questions": about.get("asked"),
        **{f"filter: {name}": about.get(name) for name in bounds},
        "commit": commit_of(about),
        "Dagster run": about.get("dagster_run"),
    }
    if not about:
        return [prompts]
    return [prompts, _filter_link(root, about), _dataset_link(root, str(about.get("dataset")))]


def _filter_link(root: Path, about: Mapping[str, Any]) -> Link:
    """Return the rollouts of the difficulty filter, from the record of the prompts."""
    name = str(about.get("rollouts", ""))
    folder = artifacts.rollouts_folder(root, name)
    link = Link("filter's rollouts", name)
    named = ("policy", "policy_revision", "prompt_revision", "samples", "temperature")
    paces = [link.record(file) for file in sorted(folder.glob(f"*{PACE}"))]  # one for each shard
    runs = sorted({str(pace["run_id"]) for pace in paces if "run_id" in pace})
    link.facts = facts_of(about, *named) | {"Dagster runs": runs}
    if name and not any(folder.glob("*.jsonl")):
        link.problems.append(f"{folder} is missing or empty.")
    return link


def _dataset_link(root: Path, dataset: str) -> Link:
    """Return a dataset: its source, its place, and whether it has changed."""
    link = Link("dataset", dataset)
    place = artifacts.dataset_file(root, dataset)
    archive = link.record(place)
    if not archive:
        return link
    try:
        splits = {name: SplitLayout.from_dict(name, row) for name, row in archive["splits"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        link.problems.append(f"{place} is not a record of a dataset: it lacks {error}.")
        return link
    link.facts = facts_of(archive, "source", "folder")
    made = link.record(Path(str(archive.get("folder"))) / MANIFEST, needed=False)
    link.facts["generated with seed"] = made.get("seed")
    for name, layout in splits.items():
        link.facts[f"{name} questions"] = str(layout.questions)
        link.facts[f"{name} databases"] = len(layout.databases)
    with link.noting():
        digests = Digests(artifacts.file_digests(root))
        now = combine_digests({n: fingerprint(layout, digests) for n, layout in splits.items()})
        if now != dataset:
            link.problems.append(
                f"The dataset in {archive.get('folder')} has changed: its fingerprint is now {now}."
            )
    return link
