"""The champion of a local project: the trained policy that its promotion gate let through last."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.common.json_files import parse_object
from text2sql.errors import Text2SqlError
from text2sql.policy.places import is_there

CHAMPION = "champion.json"
HISTORY = "champion_history.jsonl"
ADOPTED_RUN = "base"
"""The training run of a champion that was not trained here: no run can be called so."""

_REQUIRED = ("policy", "revision", "training_run")
_TEXTS = ("base_revision", "dataset", "prompt_revision", "greedy", "promoted_at", "reason")


@dataclass(frozen=True)
class Champion:
    """The policy that answers: where its weights are and how it came to be champion.

    ``policy`` is a model directory or a server's URL, ``revision`` that of its weights,
    ``base_revision`` that of the policy it was trained from; ``greedy`` is its execution accuracy
    on the dev questions, in words.
    """

    policy: str
    revision: str
    training_run: str
    base_revision: str
    greedy: str


@dataclass(frozen=True)
class Seat:
    """Who was champion when it was looked at: the record, empty for nobody, and its version.

    The version changes with every byte of the record's file; it tells whether somebody else was
    promoted meanwhile.
    """

    record: dict[str, Any]
    version: str


def champion_record(root: Path) -> dict[str, Any]:
    """Read the champion's record below an artifact root; empty where there is no champion yet.

    Raises Text2SqlError as ``read_seat`` does.
    """
    return read_seat(root).record


def read_seat(root: Path, lost: bool = False) -> Seat:
    """Read who is champion below an artifact root.

    Raises Text2SqlError where the record cannot be read, lacks a field, or is gone though there
    have been champions; ``lost`` takes that last case for nobody.
    """
    file = root / CHAMPION
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        if not lost and (root / HISTORY).is_file():
            raise Text2SqlError(
                f"{file} is gone, though there have been champions ({HISTORY}): bring the last one "
                "back with text2sql champion rollback --reason WHY."
            ) from None
        return Seat({}, "")
    except OSError as error:
        raise Text2SqlError(f"{file} cannot be read: {error.strerror}.") from error
    return Seat(parse_record(content, str(file)), hashlib.sha256(content).hexdigest())


def parse_record(content: bytes, place: str) -> dict[str, Any]:
    """Return a champion's record; raise Text2SqlError, naming ``place``, where it is not one."""
    record = parse_object(content, place, "Mend it; nothing is overwritten meanwhile.")
    if wrong := _wrong_fields(record):
        raise Text2SqlError(
            f"{place} lacks {', '.join(wrong)}, or has something else there than belongs there; "
            "mend it, or say who answers with --policy. Nothing is overwritten meanwhile."
        )
    return record


def _wrong_fields(record: dict[str, Any]) -> list[str]:
    """Name the fields of a record that make no sense."""
    wrong = [name for name in _REQUIRED if not _is_text(record.get(name))]
    wrong += [name for name in _TEXTS if not isinstance(record.get(name, ""), str)]
    if not isinstance(record.get("number", 1), int):
        wrong.append("number")
    outcomes = record.get("outcomes", {})
    if not isinstance(outcomes, dict) or not all(map(_is_number, outcomes.values())):
        wrong.append("outcomes")
    return wrong


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def named(record: Mapping[str, Any]) -> str:
    """Name a champion within a sentence: by its training run, or by what was adopted."""
    run = run_of(record)
    return f"the training run {run}" if run else f"the adopted {record['policy']}"


def run_of(record: Mapping[str, Any]) -> str:
    """Return the training run that a champion is of; empty for one that was adopted."""
    run = str(record.get("training_run", ""))
    return "" if run == ADOPTED_RUN else run


def find_champion(root: Path) -> Champion | None:
    """Return the champion below an artifact root, None where there is none yet.

    Raises Text2SqlError where its record cannot be used or its weights are gone.
    """
    record = champion_record(root)
    if not record:
        return None
    names = ("policy", "revision", "training_run", "base_revision", "greedy")
    if lacking := [name for name in names if not _is_text(record.get(name))]:
        raise Text2SqlError(
            f"{root / CHAMPION} lacks {', '.join(lacking)}; promote a champion again, or say "
            "who answers with --policy."
        )
    champion = Champion(*(record[name] for name in names))
    if not is_there(champion.policy):
        raise Text2SqlError(
            f"The champion's weights are not at {champion.policy}, where {root / CHAMPION} says; "
            "go back with text2sql champion rollback, or say who answers with --policy."
        )
    return champion
