"""Where a dataset's question files and databases are on disk, and the fingerprint of their bytes.

Public copies of BIRD differ: a dated root folder, nested folders, leftovers of macOS archives,
an inner archive that was never unpacked. The search covers every level and never guesses between
two equally near files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.agent.schema.descriptions import description_files
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.datasets.reading.files import (
    Found,
    broken_link,
    database_files,
    entries,
    gold_beside,
    holds_databases,
    named_databases,
    nearest,
    referenced_databases,
    walk,
)
from text2sql.datasets.reading.rows import read_rows
from text2sql.errors import Text2SqlError

QUESTION_FILES = {
    "train": (
        *("train.json", "train.jsonl", "train.ndjson"),
        *("train_filtered*.json", "train_filtered*.jsonl"),
        *("train-[0-9]*.jsonl", "train-[0-9]*.json", "train_spider.json"),
    ),
    "dev": (
        *("dev.json", "dev.jsonl", "dev.ndjson"),
        *("mini_dev_sqlite.json", "mini_dev_sqlite.jsonl", "mini_dev_sqlite-[0-9]*.json"),
        "dev_[0-9]*.json",
    ),
    "test": ("test.json", "test.jsonl", "test.ndjson"),
}
"""File names of each split, the preferred one first; compared without regard to case.

``train_filtered*`` and ``train-00000-of-00001.jsonl`` are BIRD's filtered training questions,
``dev_20251106*.json`` its dev revision of 2025, ``train_spider.json`` Spider's training questions.
"""

ARCHIVES = {"train": ("train.zip",), "dev": ("dev.zip", "minidev.zip"), "test": ("test.zip",)}
"""Archives that may hold a split, for a folder with the archives as downloaded."""

_OTHER_FORMS = {
    (".parquet", ".csv", ".tsv", ".xlsx", ".arrow"): "convert to .jsonl:",
    (".gz", ".tgz", ".tar", ".bz2", ".xz", ".zst", ".7z", ".rar"): "unpack:",
}
"""Formats that are not read, by suffix, and what to do with such a file."""

Unpack = Callable[[Path], Path]


@dataclass(frozen=True)
class SplitLayout:
    """One split on disk: its questions, databases by db_id, and a .sql file of gold queries."""

    split: str
    questions: Path
    databases: Mapping[str, Path]
    gold: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the places as plain JSON values."""
        return {
            "questions": str(self.questions),
            "gold": str(self.gold) if self.gold else None,
            "databases": {db_id: str(file) for db_id, file in self.databases.items()},
        }

    @classmethod
    def from_dict(cls, split: str, row: Mapping[str, Any]) -> SplitLayout:
        """Read what ``to_dict`` wrote."""
        databases = {db_id: Path(file) for db_id, file in row["databases"].items()}
        gold = Path(row["gold"]) if row["gold"] else None
        return cls(split, Path(row["questions"]), databases, gold)


def find_split(
    root: Path,
    split: str,
    questions: Path | None = None,
    unpack: Unpack | None = None,
    anywhere: bool = False,
) -> SplitLayout:
    """Find a split's questions file and databases at any level below ``root``.

    ``questions`` gives the questions file, so that it is not searched for. ``unpack`` is called
    for an archive that holds what is missing. Rows may name a database by a path relative to their
    file; with ``anywhere`` it may be outside of ``root``.
    A split may have no database at all. Raises Text2SqlError if the questions are missing or two
    files are equally near.
    """
    if split not in QUESTION_FILES:
        raise Text2SqlError(f"Unknown split '{split}': use one of {', '.join(QUESTION_FILES)}.")
    if not root.is_dir():
        raise Text2SqlError(f"{root} is not a folder; give the folder of an extracted dataset.")
    root = root.resolve()
    file = questions.resolve() if questions else None
    file = file or nearest(_files(root), QUESTION_FILES[split], f"the {split} questions")
    if file is None:
        what = f"the archive of {split}"
        if unpack and (archive := nearest(_files(root), ARCHIVES[split], what)):
            return find_split(unpack(archive), split, None, unpack)
        raise Text2SqlError(
            f"No {split} questions below {root}: expected a file named "
            f"{' or '.join(QUESTION_FILES[split])}{_other_form(root, split)}."
        )
    rows = read_rows(file)
    bases = [root]
    if file.is_relative_to(root) and file.parent != root:
        bases.insert(0, file.parent)
    found = _in_folders(root, bases, split, unpack) or named_databases(rows, bases)
    within = None if anywhere else root
    databases = {**found, **referenced_databases(rows, file.parent, found, within)}
    _require_readable_names([file, *databases.values()])
    return SplitLayout(split, file, databases, gold_beside(file, rows))


def require_databases(layout: SplitLayout, root: Path) -> None:
    """Raise Text2SqlError for a split below ``root`` that has no database at all."""
    if not layout.databases:
        raise Text2SqlError(
            f"No {layout.split} databases below {root}: expected a folder "
            f"{' or '.join(_folder_names(layout.split))} that holds <db_id>/<db_id>.sqlite, or "
            "rows with their database's path; or allow questions without one (missing_databases "
            f"of bird_questions).{broken_link(folder for _, folder in walk(root))}"
        )


def _require_readable_names(files: Iterable[Path]) -> None:
    """Raise for a path that is not UTF-8, as archives from Windows may leave."""
    for file in files:
        try:
            str(file).encode()
        except UnicodeEncodeError as error:
            shown = str(file).encode(errors="backslashreplace").decode()
            raise Text2SqlError(f"{shown} has a name that is not in UTF-8; rename it.") from error


def fingerprint(layout: SplitLayout, digests: Digests | None = None) -> str:
    """Identify a split by the bytes of its questions, databases, their logs and descriptions."""
    digests = digests or Digests()
    files = {"questions": layout.questions}
    if layout.gold:
        files["gold"] = layout.gold
    for db_id, file in layout.databases.items():
        files[f"database/{db_id}"] = file
        log = file.with_name(f"{file.name}-wal")
        if log.is_file() and log.stat().st_size:
            files[f"log/{db_id}"] = log
        files |= {f"description/{db_id}/{csv.name}": csv for csv in description_files(file)}
    with ThreadPoolExecutor(4) as pool:
        return combine_digests(dict(zip(files, pool.map(digests.of, files.values()), strict=True)))


def _other_form(root: Path, split: str) -> str:
    """Say what to do with a file that may hold a split, but in a format that is not read."""
    for _, file in _files(root):
        name = file.name.lower()
        known = (todo for endings, todo in _OTHER_FORMS.items() if name.endswith(endings))
        todo = next(known, "")
        if todo and (name.startswith(split) or split in file.parts[len(root.parts) :]):
            return f" ({todo} {file})"
    return ""


def _folder_names(split: str) -> tuple[str, ...]:
    """Return the usual names of a folder of databases, the preferred one first."""
    return f"{split}_databases", f"{split}_database", "databases", "database"


def _in_folders(
    root: Path, bases: list[Path], split: str, unpack: Unpack | None
) -> dict[str, Path]:
    """Return the databases of a folder named as in BIRD and Spider, unpacked if need be."""
    names, what = _folder_names(split), f"the {split} databases"

    def named(bases: list[Path]) -> dict[str, Path]:
        """The databases of the nearest folder with one of the names, below the first base."""
        for base in bases:
            folders = [one for one in walk(base, holds_databases) if holds_databases(one[1])]
            if folder := nearest(folders, names, what):
                return database_files(folder)
        return {}

    found = named(bases)
    if found or unpack is None:
        return found
    archive = nearest(_files(root), [f"{name}.zip" for name in names], what)
    if archive is None:
        return {}
    folder = unpack(archive)
    return named([folder]) or database_files(folder)


def _files(root: Path) -> Found:
    """Return the files at every level, without those in folders of databases."""
    folders = walk(root, holds_databases)
    return [
        (depth, entry) for depth, folder in folders for entry in entries(folder) if entry.is_file()
    ]
