"""One split of a dataset as it lies on disk, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from text2sql.datasets.reading.layout import find_split, fingerprint, require_databases
from text2sql.datasets.reading.questions import Record, file_key, load_records
from text2sql.questions import Question


@dataclass(frozen=True)
class Split:
    """Every row of a split, and the fingerprint of its files."""

    fingerprint: str
    records: list[Record]

    @property
    def questions(self) -> list[Question]:
        """The usable questions, in file order."""
        return [record.question for record in self.records if record.reason is None]

    @property
    def problems(self) -> list[Record]:
        """The rows that are not used."""
        return [record for record in self.records if record.reason is not None]

    @property
    def file_keys(self) -> list[str]:
        """The key of every row; empty for repeated ids."""
        return [file_key(record.question.key, record.reason) for record in self.records]


def load_split(root: Path, split: str) -> Split:
    """Read a split of the dataset at or below ``root``."""
    layout = find_split(root, split)
    require_databases(layout, root)
    return Split(fingerprint(layout), load_records(layout))
