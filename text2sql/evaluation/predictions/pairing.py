"""What the ids of predictions mean: question ids, keys, or positions in the questions file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.questions import Question
from text2sql.sandbox.sql.statements import BIRD_SEPARATOR

Pairs = Sequence[tuple[str, Any]]
"""Ids as they are written, and what is predicted."""
_SHOWN = 3


def names_of(
    path: Path, pairs: Pairs, rows: Sequence[str], questions: Iterable[Question]
) -> dict[str, str]:
    """Map the ids that the file at ``path`` may have to keys; ``rows`` are those of its questions.

    Raises Text2SqlError where the ids are hardly question ids, but positions of which some are
    missing or too many: those that are ids of other questions too would be paired wrongly.
    """
    given = {identity for identity, _ in pairs}
    ids = {key.split("/", 1)[-1]: key for key in rows if key}
    positions = {str(position): key for position, key in enumerate(rows)}
    if given == set(positions) and given != set(ids):
        return positions
    names = ids | {key: key for key in rows if key}
    by_id, by_position = given & names.keys(), given & positions.keys()
    if len(by_position) > 2 * len(by_id) and _may_be(pairs, positions, questions):
        raise Text2SqlError(_broken(path, given, by_id, set(positions)))
    return names


def _may_be(pairs: Pairs, positions: Mapping[str, str], questions: Iterable[Question]) -> bool:
    """Say whether ids may be positions: no prediction names another database than there."""
    asked = {question.key: question for question in questions}
    placed = [(asked.get(positions.get(identity, "")), value) for identity, value in pairs]
    return not any(question and names_another(value, question) for question, value in placed)


def _broken(path: Path, given: set[str], by_id: set[str], positions: set[str]) -> str:
    faults = {
        "missing": sorted(positions - given, key=int),
        "too many": sorted(given - positions),
    }
    told = "; ".join(f"{fault}: {_listed(ids)}" for fault, ids in faults.items() if ids)
    return (
        f"Only {len(by_id)} of {counted(len(given), 'id')} of {path} are question ids. They look "
        f"like positions in the questions file (0 to {len(positions) - 1}; {told}): give each "
        "position an entry, an empty text where there is no prediction, or give the questions' ids."
    )


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if ids[_SHOWN:] else ""
    return ", ".join(ids[:_SHOWN]) + more


def names_another(prediction: Any, question: Question) -> bool:
    """Say whether BIRD's suffix of a prediction names another database than its question."""
    if not isinstance(prediction, str):
        return False
    _, suffix, database = prediction.rpartition(BIRD_SEPARATOR)
    return bool(suffix) and database.strip() != question.db_id
