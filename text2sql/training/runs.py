"""Training runs: their records, the policy that one starts from, and what makes it the same run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.common import artifacts
from text2sql.common.files import write_whole
from text2sql.common.provenance import code_state, file_version, fingerprint, read_record
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.policy.places import is_there
from text2sql.training.backends import (
    PROMPTS_FOLDER,
    BackendSettings,
    identity_settings,
    result_settings,
)
from text2sql.training.prompts import ABOUT, prompt_files

FROM_BASE, FROM_CHAMPION = "base", "champion"
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Record = dict[str, Any]


@dataclass(frozen=True)
class StartPolicy:
    """The policy that a training run starts from.

    ``name`` is the user's choice. ``policy`` is the directory of its weights, None for the
    project's base policy; ``revision`` and ``training_run`` are those in the record, empty for the
    base.
    """

    name: str = FROM_BASE
    policy: str | None = None
    revision: str = ""
    training_run: str = ""

    def require_revision(self, found: str) -> None:
        """Raise Text2SqlError if the weights are not those in the record."""
        if self.revision and found != self.revision:
            raise Text2SqlError(
                f"The weights in {self.policy} differ from their record (revision {found} instead "
                f"of {self.revision}): start from another policy, or train {self.training_run} "
                "again."
            )

    def require_other(self, run: str | None) -> None:
        """Raise Text2SqlError if a training run would start from its own policy."""
        if run and self.training_run == run:
            raise Text2SqlError(
                f"The training run {run} cannot start from its own policy ({self.name}): choose "
                "another name for the next round."
            )


def training_record(root: Path, run: str) -> Record:
    """Return a training run's record, empty if there is none.

    Raises Text2SqlError if the record cannot be read or was edited.
    """
    return read_record(artifacts.training_record_file(root, run))


def run_state(root: Path, run: str) -> Record:
    """Return the plan of a training run that was started, else its record; empty for neither."""
    return read_record(artifacts.training_plan_file(root, run)) or training_record(root, run)


def read_training(root: Path, run: str) -> Record:
    """Return the record of a trained run: policy path, revisions, settings, seconds.

    Raises Text2SqlError if the run has no policy, or its weights are missing.
    """
    record = training_record(root, run)
    if not record:
        raise Text2SqlError(f"The training run {run} has no policy: materialize grpo_policy first.")
    place = str(record.get("policy", ""))
    if not is_there(place):
        raise Text2SqlError(
            f"The weights of the training run {run} are missing from {place}: materialize "
            "grpo_policy for it again."
        )
    return record


def find_start(root: Path, name: str) -> StartPolicy:
    """Return the policy that ``base``, ``champion`` or the name of a training run stands for.

    Raises Text2SqlError if there is no such policy, or its weights are missing.
    """
    if name == FROM_BASE:
        return StartPolicy()
    if name == FROM_CHAMPION:
        record = champion_record(root)
        if not record:
            raise Text2SqlError(f"There is no champion below {root} yet: start from base.")
        start = StartPolicy(name, record["policy"], record["revision"], record["training_run"])
    else:
        record = training_record(root, name)
        if not record:
            record_name = artifacts.training_record_file(root, name).name
            records = artifacts.training_folder(root).glob(f"*/{record_name}")
            known = ", ".join(sorted(file.parent.name for file in records)) or "none"
            raise Text2SqlError(
                f"A run cannot start from '{name}': use base, champion, or a training run below "
                f"{root} ({known})."
            )
        start = StartPolicy(name, record["policy"], record["policy_revision"], name)
    if not is_there(start.policy or ""):
        raise Text2SqlError(
            f"The weights of the training run {start.training_run} are missing from "
            f"{start.policy}: start from another policy, or train it again."
        )
    return start


def plan_run(
    root: Path,
    backend: str,
    settings: BackendSettings,
    start: StartPolicy,
    versions: Mapping[str, str],
) -> Record:
    """Return what a training run depends on, and the versions that follow from it.

    ``versions`` are ``base``, ``base_revision``, ``start_revision``, ``code_version`` and
    ``prompt_revision``. What may change when a run is resumed is part of ``config_version`` but not
    of ``version``, which names the run's folder. Raises Text2SqlError for missing prompts, and for
    weights that differ from the start's record.
    """
    folder = artifacts.prompts_folder(root)
    files = prompt_files(folder)
    start.require_revision(versions["start_revision"])
    parts: Record = {
        **versions,
        "prompts_version": file_version(*files),
        "settings": identity_settings(backend, settings),
    }
    about = read_record(folder / ABOUT)
    shaping, fields = result_settings(settings), type(settings).model_fields
    return parts | {
        "version": fingerprint(**parts),
        "backend": backend,
        "settings": shaping,
        "changed_settings": {n: v for n, v in shaping.items() if v != fields[n].default},
        "config_version": fingerprint(**parts | {"settings": shaping}),
        "start": {
            "from": start.name,
            "policy": start.policy or versions["base"],
            "training_run": start.training_run,
        },
        "prompts": about.get("kept") or len(files[0].read_bytes().splitlines()),
        "prompts_about": about,
        "code": code_state(),
    }


def keep_prompts(root: Path, folder: Path, planned: Record) -> None:
    """Copy the prompts into the run's folder, since the next filter overwrites them.

    Raises Text2SqlError if they have changed since the run was planned.
    """
    source, kept = artifacts.prompts_folder(root), folder / PROMPTS_FOLDER
    files = prompt_files(source)
    for file in (*files, source / ABOUT):
        if file.is_file():
            write_whole(kept / file.name, file.read_bytes())
    if file_version(*(kept / file.name for file in files)) != planned["prompts_version"]:
        raise Text2SqlError(
            "The training prompts were replaced while the run began: start it again."
        )


def is_reusable(record: Record, planned: Record, revision_of: Callable[[Path], str]) -> bool:
    """Say whether a policy was already trained as planned and its weights exist.

    Raises Text2SqlError if the weights are not those that were trained.
    """
    if record.get("config_version") != planned["config_version"]:
        return False
    place = Path(record["policy"])
    if not place.is_dir():
        return False
    found = revision_of(place)
    if found != record["policy_revision"]:
        raise Text2SqlError(
            f"The weights in {place} are not those that were trained (revision {found} instead of "
            f"{record['policy_revision']}): move the folder away and materialize grpo_policy again."
        )
    return True


def require_run_name(name: str) -> None:
    """Raise Text2SqlError for a name that cannot be a folder's or that means another policy."""
    if not _RUN_NAME.fullmatch(name):
        raise Text2SqlError(
            f"'{name}' cannot name a training run: use up to 64 letters, digits, '.', '_' or '-', "
            "a letter or digit first."
        )
    if name in (FROM_BASE, FROM_CHAMPION):
        raise Text2SqlError(
            f"'{name}' cannot name a training run: it stands for a policy to start from."
        )
