"""The log of held-out evaluations: a split that decides nothing should be used once per champion.

The log has a line for each time that a policy was evaluated on such a split. Lines are appended
before anything is sampled, so that a second use of a figure that somebody may have seen is noticed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from text2sql.common.artifacts import held_out_log
from text2sql.common.counting import counted
from text2sql.common.json_files import read_rows
from text2sql.common.locking import take_lock
from text2sql.errors import Text2SqlError

DECIDES = ("train", "dev")
"""Splits that are never held out: one is trained on, the other decides on promotion."""


@dataclass(frozen=True)
class Use:
    """One evaluation of a policy on a held-out split.

    ``dataset`` is the fingerprint of the data, ``revision`` the policy's, ``run`` the Dagster run;
    ``at`` is an instant in UTC.
    """

    split: str
    dataset: str
    revision: str
    training_run: str
    run: str
    at: str = ""


def note_use(root: Path, use: Use) -> list[Use]:
    """Log a use before its evaluation begins; return all uses of the same split and data.

    A run that is repeated after a failure is the same use. Raises Text2SqlError for a split that
    decides something, and where the log cannot be written: then the split must not be evaluated.
    """
    if use.split in DECIDES:
        raise Text2SqlError(
            f"The split '{use.split}' cannot be held out: {' and '.join(DECIDES)} decide how a "
            "policy is trained and whether it is promoted. Name another split."
        )
    known = uses_of(root, use.split, use.dataset)
    if any((one.run, one.revision) == (use.run, use.revision) for one in known):
        return known
    noted = replace(use, at=datetime.now(UTC).isoformat(timespec="seconds"))
    file = held_out_log(root)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as log:
            take_lock(log, file)
            log.write(json.dumps(asdict(noted)) + "\n")
            log.flush()
            os.fsync(log.fileno())
    except OSError as error:
        raise Text2SqlError(
            f"The use of a held-out split cannot be logged in {file} ({error.strerror}), so the "
            "split is not evaluated."
        ) from error
    return [*known, noted]


def uses_of(root: Path, split: str, dataset: str) -> list[Use]:
    """Return every use of a split of a dataset so far, in order.

    Raises Text2SqlError where the log is damaged.
    """
    file = held_out_log(root)
    try:
        uses = [Use(**row) for row in read_rows(file)] if file.exists() else []
    except TypeError as error:
        raise Text2SqlError(
            f"{file} has a line that is not a use of a held-out split ({error}); restore the file: "
            "without it the worth of a held-out figure is unknown."
        ) from error
    return [use for use in uses if (use.split, use.dataset) == (split, dataset)]


def metric(uses: Sequence[Use], revision: str) -> str:
    """Say what a figure on a held-out split is worth, from all uses of the split up to it."""
    split = uses[-1].split
    own = [use for use in uses if use.revision == revision]
    others = {use.revision for use in uses} - {revision}
    if len(own) > 1:
        return (
            f"figure of the held-out split '{split}', but not a clean one: it was evaluated "
            f"{len(own)} times for this policy, first at {own[0].at}"
        )
    if others:
        return (
            f"figure of the held-out split '{split}', evaluated once for this policy and before "
            f"for {counted(len(others), 'other')}: choosing among them by it makes it a "
            "development metric"
        )
    return f"held-out metric: the split '{split}' was evaluated once, for this policy"


def require_selection(root: Path, split: str, dataset: str) -> None:
    """Raise Text2SqlError where a gate would choose a policy by a held-out split.

    The error names the training run whose final figure would lose its meaning.
    """
    if uses := uses_of(root, split, dataset):
        raise Text2SqlError(
            f"The split '{split}' is held out: it gave the final figure of the training run "
            f"{uses[0].training_run} at {uses[0].at}. Choose policies by another split."
        )
