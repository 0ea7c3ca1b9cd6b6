"""Where a dataset's question files and databases lie on disk, and what their content is.

Public copies of BIRD differ: a dated root folder, a folder within a folder, rests of macOS
archives. The finder looks at every level and never guesses between two equal candidates.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from text2sql.errors import Text2SqlError

QUESTION_FILES = {
    "train": ("train.json", "train_filtered*.json"),
    "dev": ("dev.json", "mini_dev_sqlite.json"),
}
"""File names of each split, the preferred one first; compared without regard to case."""

_DEPTH = 6


@dataclass(frozen=True)
class SplitLayout:
    """One split on disk: its questions file and the folder that holds ``<db>/<db>.sqlite``."""

    split: str
    questions: Path
    databases: Path


def find_split(root: Path, split: str) -> SplitLayout:
    """Find a split's questions file and databases at any level below ``root``.

    Raises Text2SqlError when either is missing or two candidates are equally near.
    """
    if split not in QUESTION_FILES:
        raise Text2SqlError(f"Unknown split '{split}': use one of {', '.join(QUESTION_FILES)}.")
    if not root.is_dir():
        raise Text2SqlError(f"{root} is not a folder; give the folder of an extracted dataset.")
    root = root.resolve()
    questions = _find_questions(root, split)
    return SplitLayout(split, questions, _find_databases(root, questions, split))


def database_files(folder: Path) -> dict[str, Path]:
    """Return the databases of a folder: db_id to ``<folder>/<db_id>/<db_id>.sqlite``."""
    if not folder.is_dir():
        raise Text2SqlError(f"There is no folder of databases {folder}; check the path.")
    found = {}
    for entry in sorted(folder.iterdir()):
        file = entry / f"{entry.name}.sqlite"
        if not _ignored(entry.name) and file.is_file():
            found[entry.name] = file
    return found


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's bytes in hexadecimal, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def combine_digests(parts: dict[str, str]) -> str:
    """Return 16 hexadecimal digits that change when a name or a digest of ``parts`` does."""
    lines = "".join(f"{name}\t{digest}\n" for name, digest in sorted(parts.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def fingerprint(layout: SplitLayout) -> str:
    """Identify a split by the bytes of its questions file and of every database."""
    parts = {"questions": file_digest(layout.questions)}
    for db_id, file in database_files(layout.databases).items():
        parts[f"database/{db_id}"] = file_digest(file)
    return combine_digests(parts)


def _ignored(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _walk(root: Path) -> Iterator[tuple[int, Path]]:
    """Yield (depth, folder) from the root down, leaving out hidden and macOS folders."""
    level = [root]
    for depth in range(_DEPTH):
        following = []
        for folder in level:
            yield depth, folder
            if not _holds_databases(folder):
                following += [entry for entry in _entries(folder) if entry.is_dir()]
        level = following


def _entries(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if not _ignored(name)]
    except OSError as error:
        raise Text2SqlError(f"Cannot read the folder {folder}: {error.strerror}.") from error


def _holds_databases(folder: Path) -> bool:
    named = folder.name.lower().endswith(("databases", "database"))
    return named and bool(database_files(folder))


def _nearest(found: list[tuple[int, Path]], what: str) -> Path | None:
    """Return the candidate at the lowest depth; two there are the user's to decide."""
    if not found:
        return None
    lowest = min(depth for depth, _ in found)
    nearest = [path for depth, path in found if depth == lowest]
    if len(nearest) > 1:
        names = " and ".join(str(path) for path in nearest[:2])
        raise Text2SqlError(f"Both {names} could be {what}; point at the folder of one of them.")
    return nearest[0]


def _find_questions(root: Path, split: str) -> Path:
    files = [
        (depth, entry)
        for depth, folder in _walk(root)
        for entry in _entries(folder)
        if entry.is_file()
    ]
    for pattern in QUESTION_FILES[split]:
        named = [(depth, file) for depth, file in files if fnmatchcase(file.name.lower(), pattern)]
        nearest = _nearest(named, f"the {split} questions")
        if nearest is not None:
            return nearest
    names = " or ".join(QUESTION_FILES[split])
    raise Text2SqlError(f"No {split} questions below {root}: expected a file named {names}.")


def _find_databases(root: Path, questions: Path, split: str) -> Path:
    names = (f"{split}_databases", "databases", "database")
    for base in (questions.parent, root):
        folders = [(depth, folder) for depth, folder in _walk(base) if _holds_databases(folder)]
        for name in names:
            named = [(depth, folder) for depth, folder in folders if folder.name.lower() == name]
            nearest = _nearest(named, f"the {split} databases")
            if nearest is not None:
                return nearest
    raise Text2SqlError(
        f"No {split} databases below {root}: expected a folder {' or '.join(names)} "
        "that holds <db_id>/<db_id>.sqlite."
    )
