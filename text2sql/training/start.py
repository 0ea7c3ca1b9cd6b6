"""Where a training run starts from: the base policy, the champion, or another run's policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.common.provenance import read_record
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.policy.places import is_there

FROM_BASE, FROM_CHAMPION = "base", "champion"
TRAINING = "training"
"""The folder below the artifact root with a folder for each training run."""
RECORD = "training.json"


@dataclass(frozen=True)
class Start:
    """The policy that a training run starts from.

    ``name`` is what was asked for. ``policy`` is the directory of its weights, None for the
    project's base policy; ``revision`` and ``training_run`` are those that were recorded, empty
    for the base.
    """

    name: str = FROM_BASE
    policy: str | None = None
    revision: str = ""
    training_run: str = ""

    def require_revision(self, found: str) -> None:
        """Raise Text2SqlError where the weights are not those that were recorded."""
        if self.revision and found != self.revision:
            raise Text2SqlError(
                f"The weights in {self.policy} are not those that were recorded ({found} instead "
                f"of {self.revision}): start from another policy, or train {self.training_run} "
                "again."
            )

    def require_other(self, run: str | None) -> None:
        """Raise Text2SqlError where a training run would start from its own policy."""
        if run and self.training_run == run:
            raise Text2SqlError(
                f"The training run {run} cannot start from its own policy ({self.name}): choose "
                "another name for the next round."
            )


def training_runs_below(root: Path) -> list[str]:
    """Return the names of the training runs that have a record below an artifact root."""
    return sorted(file.parent.name for file in (root / TRAINING).glob(f"*/{RECORD}"))


def training_record(root: Path, run: str) -> dict[str, Any]:
    """Return what was recorded of a training run; empty where there is nothing.

    Raises Text2SqlError where the record cannot be read or was edited.
    """
    return read_record(root / TRAINING / run / RECORD)


def read_training(root: Path, run: str) -> dict[str, Any]:
    """Return what ``grpo_policy`` recorded of a run: policy path, revisions, config, seconds."""
    record = training_record(root, run)
    if not record:
        raise Text2SqlError(f"The training run {run} has no policy: materialize grpo_policy first.")
    place = str(record.get("policy", ""))
    if not is_there(place):
        raise Text2SqlError(
            f"The weights of the training run {run} are gone from {place}: materialize grpo_policy "
            "for it again."
        )
    return record


def find_start(root: Path, name: str) -> Start:
    """Return the policy that ``base``, ``champion`` or the name of a training run stands for.

    Raises Text2SqlError where there is no such policy, or its weights are gone.
    """
    if name == FROM_BASE:
        return Start()
    start = _champion(root) if name == FROM_CHAMPION else _training_run(root, name)
    if not is_there(start.policy or ""):
        raise Text2SqlError(
            f"The weights of the training run {start.training_run} are gone from {start.policy}: "
            "start from another policy, or train it again."
        )
    return start


def _champion(root: Path) -> Start:
    record = champion_record(root)
    if not record:
        raise Text2SqlError(f"There is no champion below {root} yet: start from base.")
    return Start(FROM_CHAMPION, record["policy"], record["revision"], record["training_run"])


def _training_run(root: Path, run: str) -> Start:
    record = training_record(root, run)
    if not record:
        known = ", ".join(training_runs_below(root)) or "none"
        raise Text2SqlError(
            f"A run cannot start from '{run}': use base, champion, or a training run below {root} "
            f"({known})."
        )
    return Start(run, record["policy"], record["policy_revision"], run)
