"""The champion: the policy that answers until its promotion gate lets another one through.

``champion.json`` below the artifact root holds its record. Where a command names no policy, the
champion answers, and the pocket policy where there is no champion.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.common.artifacts import artifact_root, champion_file, champion_history
from text2sql.common.json_files import parse_object
from text2sql.errors import Text2SqlError
from text2sql.policy.open import POCKET, policy_directory
from text2sql.policy.places import is_there
from text2sql.policy.weights import directory_revision

ADOPTED_RUN = "base"
"""The training run of a champion that was not trained here; no real run can have this name."""
POCKET_USE = "it knows template English on small databases; a stand-in, not for real questions"

_REQUIRED = ("policy", "revision", "training_run")
_TEXTS = ("base_revision", "dataset", "prompt_revision", "greedy", "promoted_at", "reason")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Incumbent:
    """The champion's record at one moment, empty without a champion, and the version of its file.

    The version changes with every byte of the file, so it shows whether another process changed
    the champion in the meantime.
    """

    record: dict[str, Any]
    version: str


def champion_record(root: Path) -> dict[str, Any]:
    """Read the champion's record; empty without a champion. Raises as ``read_incumbent``."""
    return read_incumbent(root).record


def read_incumbent(root: Path, allow_lost: bool = False) -> Incumbent:
    """Read who is champion below an artifact root.

    Raises Text2SqlError where the record cannot be read or lacks a field. A record that is gone
    although the history has champions is an error too, unless ``allow_lost``.
    """
    file, history = champion_file(root), champion_history(root)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        if not allow_lost and history.is_file():
            raise Text2SqlError(
                f"{file} is gone, although {history.name} lists champions: restore the last one "
                "with text2sql champion rollback --reason WHY."
            ) from None
        return Incumbent({}, "")
    except OSError as error:
        raise Text2SqlError(f"{file} cannot be read: {error.strerror}.") from error
    return Incumbent(parse_record(content, str(file)), hashlib.sha256(content).hexdigest())


def parse_record(content: bytes, place: str) -> dict[str, Any]:
    """Return a champion's record; raise Text2SqlError, naming ``place``, for anything else."""
    record = parse_object(content, place, "Fix the file; it will not be overwritten.")
    invalid = [
        name for name in _REQUIRED if not isinstance(record.get(name), str) or not record[name]
    ]
    invalid += [name for name in _TEXTS if not isinstance(record.get(name, ""), str)]
    if not isinstance(record.get("number", 1), int):
        invalid.append("number")
    outcomes = record.get("outcomes", {})
    if not isinstance(outcomes, dict) or not all(
        isinstance(share, int | float) for share in outcomes.values()
    ):
        invalid.append("outcomes")
    if invalid:
        raise Text2SqlError(
            f"{place} lacks {', '.join(invalid)}, or the value is invalid. Fix the file, or choose "
            "a policy with --policy; the file will not be overwritten."
        )
    return record


def named(record: Mapping[str, Any]) -> str:
    """Name a champion within a sentence: by its training run, or by what was adopted."""
    run = run_of(record)
    return f"the training run {run}" if run else f"the adopted {record['policy']}"


def run_of(record: Mapping[str, Any]) -> str:
    """Return the training run that a champion comes from; empty for one that was adopted."""
    run = str(record.get("training_run", ""))
    return "" if run == ADOPTED_RUN else run


@dataclass(frozen=True)
class Choice:
    """The policy that a command asks: its specification, what to call it, and what it is good for.

    ``revision`` is the one it must have; empty where any will do.
    """

    spec: str
    title: str = ""
    use: str = ""
    revision: str = ""


def choose(spec: str | None) -> Choice:
    """Return the policy that the user named, else the project's champion, else the pocket policy.

    Raises Text2SqlError where the champion cannot be used: nothing falls back to another policy.
    """
    if spec is not None and spec != POCKET:
        return Choice(spec)
    root = artifact_root()
    champion = champion_record(root) if spec is None else {}
    _log.debug("champion of %s: %s", root, champion.get("policy", "none"))
    if not champion:
        return Choice(POCKET, "the pocket policy", POCKET_USE)
    policy = champion["policy"]
    if not is_there(policy):
        raise Text2SqlError(
            f"The champion's weights are not at {policy}, where {champion_file(root)} expects "
            "them; go back with text2sql champion rollback, or choose a policy with --policy."
        )
    use = f"greedy accuracy on its dev questions, in percent: {champion.get('greedy', 'unknown')}"
    if champion["training_run"] == ADOPTED_RUN:
        use = "it has not been evaluated here"
    pocket = policy_directory(POCKET)
    if pocket is not None and directory_revision(pocket) == champion.get("base_revision"):
        use += f"; trained from the pocket policy: {POCKET_USE}"
    title = f"the champion of {root}, {named(champion).removeprefix('the ')}"
    return Choice(policy, title, use, champion["revision"])


def require_champion(root: Path) -> dict[str, Any]:
    """Return the champion's record; ``policy`` is its directory, ``revision`` its weights'."""
    champion = champion_record(root)
    if not champion:
        raise Text2SqlError(
            "No champion yet: run the lifecycle job first, or make a served model champion with "
            "text2sql champion adopt."
        )
    return champion
