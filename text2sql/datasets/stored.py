"""Ingested datasets: their records, questions and gold results below the artifact root.

``bird/archive.json`` names the dataset that was ingested last, ``bird/current.json`` the one that
passed its checks; ``bird/<fingerprint>/`` has a folder for each split and a record of its own.
Writes are atomic: readers see a whole file or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.common import artifacts
from text2sql.common.json_files import read_if_there, read_object, read_rows, write_json, write_rows
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.datasets.reading.questions import Record
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question

_QUESTIONS = "questions.jsonl"
DATABASES = "databases.parquet"
GOLDS = "gold_results.jsonl"
_GOLD_STATE = "gold_results.json"


@dataclass(frozen=True)
class Dataset:
    """A dataset on disk: its folder, its content's fingerprint, and where each split is."""

    source: str
    folder: Path
    fingerprint: str
    splits: dict[str, SplitLayout]

    def to_dict(self) -> dict[str, Any]:
        """Return the dataset as plain JSON values."""
        splits = {name: layout.to_dict() for name, layout in self.splits.items()}
        return vars(self) | {"folder": str(self.folder), "splits": splits}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Dataset:
        """Read what ``to_dict`` wrote."""
        splits = {name: SplitLayout.from_dict(name, one) for name, one in row["splits"].items()}
        return cls(**row | {"folder": Path(row["folder"]), "splits": splits})


def store_latest(root: Path, dataset: Dataset) -> None:
    """Record a dataset as the one that was ingested last."""
    write_json(artifacts.dataset_file(root, dataset.fingerprint), dataset.to_dict())
    write_json(artifacts.latest_dataset_file(root), dataset.to_dict())


def store_current(root: Path, dataset: Dataset) -> None:
    """Record a dataset as the one that passed its checks: everything downstream reads it."""
    write_json(artifacts.current_dataset_file(root), dataset.to_dict())


def load_latest(root: Path) -> Dataset:
    """Return the dataset that was ingested last."""
    return _load(artifacts.latest_dataset_file(root), "bird_archive")


def load_dataset(root: Path, fingerprint: str) -> Dataset:
    """Return the dataset with this fingerprint."""
    return _load(artifacts.dataset_file(root, fingerprint), "bird_archive")


def load_current(root: Path) -> Dataset:
    """Return the dataset that passed its checks last."""
    return _load(artifacts.current_dataset_file(root), "bird_questions")


def _load(file: Path, asset: str) -> Dataset:
    return Dataset.from_dict(read_object(_made(file, asset)))


def _made(file: Path, asset: str) -> Path:
    if not file.is_file():
        raise Text2SqlError(
            f"{file} does not exist: ingest a dataset first, for example with make demo, or "
            f"materialize {asset} (python -m pipelines.materialize --select {asset})."
        )
    return file


def dataset_folder(root: Path, dataset: Dataset) -> Path:
    """Return the folder of what is made from a dataset."""
    return artifacts.dataset_folder(root, dataset.fingerprint)


def split_folder(root: Path, dataset: Dataset, split: str) -> Path:
    """Return the folder of one split's files; raise if the dataset has no such split."""
    if split not in dataset.splits:
        names = ", ".join(dataset.splits)
        raise Text2SqlError(
            f"The dataset {dataset.folder} has no split '{split}' (it has {names})."
        )
    return artifacts.split_folder(root, dataset.fingerprint, split)


def store_records(root: Path, dataset: Dataset, split: str, records: Iterable[Record]) -> None:
    """Write every row of a split's questions file, including rows that are not used."""
    rows = (
        vars(one) | {"question": one.question.to_dict(), "reason": one.reason or ""}
        for one in records
    )
    write_rows(split_folder(root, dataset, split) / _QUESTIONS, rows)


def load_rows(root: Path, split: str, dataset: Dataset | None = None) -> list[dict[str, Any]]:
    """Return every row of a split (default: of the current dataset), used or not."""
    folder = split_folder(root, dataset or load_current(root), split)
    return read_rows(_made(folder / _QUESTIONS, "bird_questions"))


def load_questions(root: Path, split: str, dataset: Dataset | None = None) -> list[Question]:
    """Return the usable questions of a split, in the order of the questions file."""
    rows = load_rows(root, split, dataset)
    return [Question.from_dict(row["question"]) for row in rows if not row["reason"]]


def all_questions(root: Path, dataset: Dataset) -> list[Question]:
    """Return the usable questions of all splits; raise Text2SqlError if there are none."""
    questions = [q for split in dataset.splits for q in load_questions(root, split, dataset)]
    if not questions:
        raise Text2SqlError(
            f"No question of {dataset.folder} can be used: the checks of bird_questions say why; "
            "provide the missing databases, or another source."
        )
    return questions


def load_golds(root: Path, split: str) -> dict[str, GoldResult]:
    """Return the gold results of a split's usable questions by key; some may have failed."""
    dataset = load_current(root)
    if not read_if_there(dataset_folder(root, dataset) / _GOLD_STATE).get("accepted", True):
        raise Text2SqlError(
            f"The gold results of {dataset.folder} failed their check: see gold_results in "
            "Dagster, then fix the dataset or allow more failures."
        )
    return _split_golds(root, dataset, split)


def load_all_golds(
    root: Path, dataset: Dataset, version: str | None = None
) -> dict[str, GoldResult] | None:
    """Return the gold results of all splits, None where those of ``version`` are not stored."""
    state = read_if_there(dataset_folder(root, dataset) / _GOLD_STATE)
    if version is not None and state.get("version") != version:
        return None
    splits = [_split_golds(root, dataset, split) for split in dataset.splits]
    return {key: gold for golds in splits for key, gold in golds.items()}


def store_golds(
    root: Path, dataset: Dataset, golds: Mapping[str, GoldResult], version: str, accepted: bool
) -> None:
    """Write the gold results of each split; ``accepted`` says whether others may read them.

    Results with infrastructure failures get no version, so that the next run computes them again.
    """
    write_by_split(root, dataset, GOLDS, [gold.to_dict() for gold in golds.values()])
    failed = any(gold.lost for gold in golds.values())
    state = {"version": "" if failed else version, "accepted": accepted}
    write_json(dataset_folder(root, dataset) / _GOLD_STATE, state)


def write_by_split(
    root: Path, dataset: Dataset, name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write each split's rows into its file ``name``; a row's ``key`` begins with its split."""
    for split in dataset.splits:
        own = [row for row in rows if row["key"].startswith(f"{split}/")]
        write_rows(split_folder(root, dataset, split) / name, own)


def _split_golds(root: Path, dataset: Dataset, split: str) -> dict[str, GoldResult]:
    rows = read_rows(_made(split_folder(root, dataset, split) / GOLDS, "gold_results"))
    return {row["key"]: GoldResult.from_dict(row) for row in rows}
