"""Finding files: below a root, beside a questions file, and the database of each row."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PureWindowsPath

from text2sql.datasets.reading.rows import Field, Row, read_rows
from text2sql.errors import Text2SqlError

SUFFIXES = (".sqlite", ".sqlite3", ".db")
_DEPTH = 12
_LITTER = ("__macosx", "thumbs.db", "desktop.ini")

Found = list[tuple[int, Path]]
"""Paths with their depth below the root, which has depth 0."""


def is_litter(name: str) -> bool:
    """Whether a file or folder is hidden, or was added by macOS or Windows."""
    return name.startswith(".") or name.lower() in _LITTER


def entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, sorted by name, without litter."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if not is_litter(name)]
    except OSError as error:
        raise Text2SqlError(f"Cannot read the folder {folder}: {error.strerror}.") from error


def walk(
    root: Path, closed: Callable[[Path], bool] = lambda folder: False
) -> Iterator[tuple[int, Path]]:
    """Yield (depth, folder) from the root down, without entering ``closed`` folders.

    A folder that several links lead to is visited once, where it is nearest to the root.
    """
    level = [root]
    seen: set[str] = set()
    for depth in range(_DEPTH):
        following = []
        for folder in level:
            place = os.path.realpath(folder)
            if place in seen:
                continue
            seen.add(place)
            yield depth, folder
            if not closed(folder):
                following += [entry for entry in entries(folder) if entry.is_dir()]
        level = following


def nearest(found: Found, patterns: Iterable[str], what: str) -> Path | None:
    """Return the path at the lowest depth whose name matches the first pattern that any matches.

    Case is ignored. Raises Text2SqlError if two match at that depth: the user decides between them.
    """
    for pattern in patterns:
        named = [(depth, path) for depth, path in found if fnmatchcase(path.name.lower(), pattern)]
        lowest = min((depth for depth, _ in named), default=0)
        paths = [path for depth, path in named if depth == lowest]
        if len(paths) > 1:
            raise Text2SqlError(
                f"Both {paths[0]} and {paths[1]} could be {what}; point at the folder of one of "
                "them."
            )
        if paths:
            return paths[0]
    return None


def database_files(folder: Path) -> dict[str, Path]:
    """Return a folder's databases by db_id: ``<db_id>/<db_id>.sqlite``, or ``<db_id>.sqlite``."""
    if folder.is_file():
        raise Text2SqlError(f"{folder} is a file; give its folder, unpacked.")
    if not folder.is_dir():
        raise Text2SqlError(f"The folder of databases {folder} does not exist; check the path.")
    found: dict[str, Path] = {}
    for entry in entries(folder):
        if entry.is_dir():
            if file := _named_as_its_folder(entry):
                found[entry.name] = file
        elif entry.suffix.lower() in SUFFIXES and entry.is_file():
            found.setdefault(entry.stem, entry)
    return dict(sorted(found.items()))


def _named_as_its_folder(folder: Path) -> Path | None:
    """Return the database named like its folder, preferably in the same case."""
    names = [f"{folder.name}{suffix}" for suffix in SUFFIXES]
    if file := next((folder / name for name in names if (folder / name).is_file()), None):
        return file
    folded = {name.lower() for name in names}
    alike = (file for file in entries(folder) if file.name.lower() in folded)
    return next((file for file in alike if file.is_file()), None)


def unused_files(name: str, known: Iterable[Path]) -> list[str]:
    """Return what a folder ``name`` beside the ``known`` ones holds instead of its database."""
    if "\0" in name or name != os.path.basename(name) or name in ("", ".", ".."):
        return []
    places = {file.parent.parent / name for file in known if file.stem == file.parent.name}
    folders = sorted(place for place in places if os.path.isdir(place))
    return [
        f"{entry.name} (a broken link)" if _is_broken_link(entry) else entry.name
        for folder in folders[:1]
        for entry in entries(folder)
    ]


def broken_link(folders: Iterable[Path]) -> str:
    """Return a sentence about the first broken link in some folders, or nothing."""
    broken = (entry for folder in folders for entry in entries(folder) if _is_broken_link(entry))
    link = next(broken, None)
    return f" {link} is a link to {os.readlink(link)}, which does not exist." if link else ""


def _is_broken_link(entry: Path) -> bool:
    return entry.is_symlink() and not os.path.exists(entry)


def holds_databases(folder: Path) -> bool:
    """Whether a folder is named like a folder of databases, and has some."""
    named = folder.name.lower().endswith(("databases", "database"))
    return named and bool(database_files(folder))


def named_databases(rows: Sequence[Row], folders: Iterable[Path]) -> dict[str, Path]:
    """Return those of the folders' databases that a row names; the folders may have any name."""
    references = _references(rows)
    found: dict[str, Path] = {}
    for folder in folders:
        known = database_files(folder)
        found |= {name: known[name] for name in references if name in known and name not in found}
    return found


def referenced_databases(
    rows: Sequence[Row], folder: Path, known: Mapping[str, Path], within: Path | None
) -> dict[str, Path]:
    """Return the databases that rows name by a path relative to ``folder``, by a short db_id.

    The db_id is the file's name without its suffix if that is unique, else the path as written.
    Files that are missing, or not ``within`` this folder, are left out.
    """
    resolved = {resolve(file, folder) for file in known.values()}
    fresh: dict[Path, str] = {}
    for reference in _references(rows):
        if reference in known or not is_path(reference) or "\0" in reference:
            continue
        file = resolve(reference, folder)
        allowed = within is None or file.is_relative_to(within)
        if allowed and file not in resolved and os.path.isfile(file):
            fresh.setdefault(file, reference)
    stems = Counter([*known, *(file.stem for file in fresh)])
    return {
        file.stem if stems[file.stem] == 1 else reference: file for file, reference in fresh.items()
    }


def resolve(reference: str | Path, folder: Path) -> Path:
    """Return the absolute path, links followed, of a path in ``folder``, or of a Windows path."""
    path = folder / os.path.expanduser(reference)
    if "\\" in str(reference) and not os.path.exists(path):
        path = folder / PureWindowsPath(reference).as_posix()
    return Path(os.path.realpath(path))


def is_path(reference: str) -> bool:
    """Whether a row names its database by a path rather than by a name."""
    return "/" in reference or reference.lower().endswith(SUFFIXES)


def _references(rows: Sequence[Row]) -> list[str]:
    """Return the databases that rows name, each once, in file order."""
    return list(dict.fromkeys(filter(None, (row.text(Field.DATABASE) for row in rows))))


def gold_beside(questions: Path, rows: Sequence[Row] | None = None) -> Path | None:
    """Return ``<name>_gold.sql`` or ``<name>.sql``, in any case, if no row has SQL.

    A null or blank SQL, as in questions whose gold is held back, does not count. Without ``rows``
    the questions are read; raises as ``read_rows`` does.
    """
    rows = read_rows(questions) if rows is None else rows
    if not rows or any(row.gold() for row in rows):
        return None
    beside = {file.name.lower(): file for file in entries(questions.parent) if file.is_file()}
    names = (f"{questions.stem}_gold.sql".lower(), f"{questions.stem}.sql".lower())
    return next((beside[name] for name in names if name in beside), None)
