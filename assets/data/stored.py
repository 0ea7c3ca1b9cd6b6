"""Where the ingested dataset lies below the artifact root, and how other assets read it.

``<root>/bird/archive.json`` names the archive that was looked at last, ``current.json`` beside it
the dataset that passed its checks; ``<root>/bird/<fingerprint>/`` has a folder for each split, and
an ``archive.json`` of its own.
Files are written beside their place and moved there: a reader sees a whole file or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.cli.lineage.data import ARCHIVE, BIRD
from text2sql.common.json_files import read_if_there, read_object, read_rows, write_json, write_rows
from text2sql.datasets.reading.bird import Record
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question

CURRENT = "current.json"
QUESTIONS = "questions.jsonl"
DATABASES = "databases.parquet"
GOLDS = "gold_results.jsonl"
GOLD_STATE = "gold_results.json"


@dataclass(frozen=True)
class Archive:
    """A dataset on disk: its folder, its content's fingerprint, and where each split lies."""

    source: str
    folder: Path
    fingerprint: str
    splits: dict[str, SplitLayout]

    def to_dict(self) -> dict[str, Any]:
        """Return the archive as plain JSON values."""
        splits = {name: layout.to_dict() for name, layout in self.splits.items()}
        return {
            "source": self.source,
            "folder": str(self.folder),
            "fingerprint": self.fingerprint,
            "splits": splits,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Archive:
        """Read what ``to_dict`` wrote."""
        splits = {name: SplitLayout.from_dict(name, one) for name, one in row["splits"].items()}
        return cls(row["source"], Path(row["folder"]), row["fingerprint"], splits)


def load_archive(root: Path) -> Archive:
    """Return the archive that was looked at last."""
    return _pointer(root, ARCHIVE, "bird_archive")


def load_dataset(root: Path, fingerprint: str) -> Archive:
    """Return the archive of this fingerprint."""
    return _pointer(root, f"{fingerprint}/{ARCHIVE}", "bird_archive")


def store_archive(root: Path, archive: Archive) -> None:
    """Note an archive as the last that was looked at, and beside what is made of it."""
    for folder in (dataset_folder(root, archive), root / BIRD):
        write_json(folder / ARCHIVE, archive.to_dict())


def load_current(root: Path) -> Archive:
    """Return the dataset that passed its checks last: what everything downstream reads."""
    return _pointer(root, CURRENT, "bird_questions")


def _pointer(root: Path, name: str, asset: str) -> Archive:
    file = root / BIRD / name
    if not file.is_file():
        raise Text2SqlError(f"There is no {file}: materialize {asset} first.")
    return Archive.from_dict(read_object(file))


def dataset_folder(root: Path, archive: Archive) -> Path:
    """Return the folder of a dataset's own files."""
    return root / BIRD / archive.fingerprint


def load_rows(root: Path, split: str, archive: Archive | None = None) -> list[dict[str, Any]]:
    """Return every row of a split, also those that are not used; of the current dataset."""
    folder = split_folder(root, archive or load_current(root), split)
    return _read(folder / QUESTIONS, "bird_questions")


def load_questions(root: Path, split: str, archive: Archive | None = None) -> list[Question]:
    """Return the questions of a split that can be used, in the order of the questions file."""
    rows = load_rows(root, split, archive)
    return [Question.from_dict(row["question"]) for row in rows if not row["reason"]]


def load_golds(root: Path, split: str) -> dict[str, GoldResult]:
    """Return the gold results of a split's usable questions by key; some may have failed."""
    archive = load_current(root)
    if not _gold_state(root, archive).get("accepted", True):
        raise Text2SqlError(
            f"The gold results of {archive.folder} failed their check: see gold_results in "
            "Dagster, and mend the dataset or allow more failures."
        )
    return _read_golds(split_folder(root, archive, split) / GOLDS)


def stored_golds(root: Path, archive: Archive, version: str) -> dict[str, GoldResult] | None:
    """Return the gold results of all splits, or None where those of ``version`` are not there."""
    if _gold_state(root, archive).get("version") != version:
        return None
    found: dict[str, GoldResult] = {}
    for split in archive.splits:
        found |= _read_golds(split_folder(root, archive, split) / GOLDS)
    return found


def store_golds(
    root: Path, archive: Archive, golds: Mapping[str, GoldResult], version: str, accepted: bool
) -> None:
    """Write the gold results of each split; ``accepted`` says whether others may read them.

    Results that the infrastructure spoilt are not stored as finished work.
    """
    for split in archive.splits:
        rows = [gold.to_dict() for key, gold in golds.items() if key.startswith(f"{split}/")]
        write_rows(split_folder(root, archive, split) / GOLDS, rows)
    spoilt = any(gold.lost for gold in golds.values())
    state = {"version": "" if spoilt else version, "accepted": accepted}
    write_json(dataset_folder(root, archive) / GOLD_STATE, state)


def _gold_state(root: Path, archive: Archive) -> dict[str, Any]:
    file = dataset_folder(root, archive) / GOLD_STATE
    return read_if_there(file)


def _read_golds(file: Path) -> dict[str, GoldResult]:
    return {row["key"]: GoldResult.from_dict(row) for row in _read(file, "gold_results")}


def split_folder(root: Path, archive: Archive, split: str) -> Path:
    """Return the folder of one split's files; raise where the dataset has no such split."""
    if split not in archive.splits:
        names = ", ".join(archive.splits)
        raise Text2SqlError(
            f"The dataset {archive.folder} has no split '{split}' (it has {names})."
        )
    return dataset_folder(root, archive) / split


def store_records(root: Path, archive: Archive, split: str, records: Iterable[Record]) -> None:
    """Write every row of a split's questions file, also those that are not used."""
    write_rows(split_folder(root, archive, split) / QUESTIONS, map(_record_row, records))


def _record_row(record: Record) -> dict[str, Any]:
    return {
        "position": record.position,
        "question": record.question.to_dict(),
        "reason": record.reason or "",
        "detail": record.detail,
    }


def _read(file: Path, asset: str) -> list[dict[str, Any]]:
    if not file.is_file():
        raise Text2SqlError(f"There is no {file}: materialize {asset} for this dataset first.")
    return read_rows(file)
