"""A question on a database: the unit that is filtered, trained on, evaluated and answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Question:
    """One question.

    ``key`` is unique within its dataset (BIRD: ``dev/17``) and stable between runs.
    ``database`` is the SQLite file. ``sql`` is the gold query, empty without one.
    ``subset`` names a part of the split that is reported apart (``new_databases``).
    """

    key: str
    db_id: str
    database: Path
    question: str
    evidence: str = ""
    sql: str = ""
    difficulty: str = ""
    subset: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plain JSON values."""
        return vars(self) | {"database": str(self.database)}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Question:
        """Read what ``to_dict`` wrote."""
        return cls(**(row | {"database": Path(row["database"])}))
