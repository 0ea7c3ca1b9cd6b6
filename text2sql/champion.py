"""The champion of a local project: the trained policy that its promotion gate let through last."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import text2sql
from text2sql.errors import Text2SqlError

CHAMPION = "champion.json"
ROOT_VARIABLE = "TEXT2SQL_ROOT"


@dataclass(frozen=True)
class Champion:
    """The policy that answers: the directory of its weights and how it came to be champion.

    ``revision`` is that of its weights, ``base_revision`` that of the policy it was trained
    from; ``greedy`` is its execution accuracy on the dev questions, in words.
    """

    policy: Path
    revision: str
    training_run: str
    base_revision: str
    greedy: str


def local_root() -> Path:
    """Return the artifact root of the project around: where everything that it makes lies.

    ``TEXT2SQL_ROOT`` names it; without it, it is ``artifacts`` in the current directory, or,
    where there is none, in the checkout that this package belongs to.
    """
    if named := os.environ.get(ROOT_VARIABLE):
        return Path(named).expanduser().resolve()
    here, checkout = Path.cwd(), Path(text2sql.__file__).resolve().parent.parent
    inside = (checkout / "pyproject.toml").is_file()
    return (checkout if inside and not (here / "artifacts").is_dir() else here) / "artifacts"


def champion_record(root: Path) -> dict[str, Any]:
    """Read the champion's record below an artifact root; empty where there is no champion yet.

    Raises Text2SqlError where the file cannot be read as a JSON object.
    """
    file = root / CHAMPION
    if not file.is_file():
        return {}
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Text2SqlError(f"{file} cannot be read as JSON: {error}.") from error
    if not isinstance(record, dict):
        raise Text2SqlError(f"{file} must hold one JSON object: the champion's record.")
    return record


def find_champion(root: Path) -> Champion | None:
    """Return the champion below an artifact root, None where there is none yet.

    Raises Text2SqlError where its record is incomplete or its weights are gone.
    """
    record = champion_record(root)
    if not record:
        return None
    names = ("policy", "revision", "training_run", "base_revision", "greedy")
    if lacking := [name for name in names if not isinstance(record.get(name), str)]:
        raise Text2SqlError(
            f"{root / CHAMPION} lacks {', '.join(lacking)}; promote a champion again, or say "
            "who answers with --policy."
        )
    champion = Champion(Path(record["policy"]), *(record[name] for name in names[1:]))
    if not champion.policy.is_dir():
        raise Text2SqlError(
            f"The champion's weights are not at {champion.policy}, where {root / CHAMPION} says; "
            "promote a champion again, or say who answers with --policy."
        )
    return champion
