"""Which SQLite file a row's database is: by db_id in a folder, by name, or by a path."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PureWindowsPath

from text2sql.datasets.reading.folders import entries
from text2sql.datasets.reading.rows import Field, Row
from text2sql.errors import Text2SqlError

SUFFIXES = (".sqlite", ".sqlite3", ".db")


def database_files(folder: Path) -> dict[str, Path]:
    """Return the databases of a folder by db_id.

    BIRD's and Spider's form is ``<db_id>/<db_id>.sqlite``; ``<db_id>.sqlite`` is one too.
    """
    if folder.is_file():
        raise Text2SqlError(f"{folder} is a file; give the folder that it lies in, unpacked.")
    if not folder.is_dir():
        raise Text2SqlError(f"There is no folder of databases {folder}; check the path.")
    found: dict[str, Path] = {}
    for entry in entries(folder):
        if entry.is_dir():
            if file := _named_as_its_folder(entry):
                found[entry.name] = file
        elif entry.suffix.lower() in SUFFIXES and entry.is_file():
            found.setdefault(entry.stem, entry)
    return dict(sorted(found.items()))


def _named_as_its_folder(folder: Path) -> Path | None:
    """Return the database that has its folder's name, best in the same case."""
    names = [f"{folder.name}{suffix}" for suffix in SUFFIXES]
    if file := next((folder / name for name in names if (folder / name).is_file()), None):
        return file
    folded = {name.lower() for name in names}
    alike = (file for file in entries(folder) if file.name.lower() in folded)
    return next((file for file in alike if file.is_file()), None)


def unused_files(name: str, known: Iterable[Path]) -> list[str]:
    """Return what lies, instead of a database of its name, in the folder that has this name.

    The folder is looked for beside those of the ``known`` databases.
    """
    if "\0" in name or name != os.path.basename(name) or name in ("", ".", ".."):
        return []
    places = {file.parent.parent / name for file in known if file.stem == file.parent.name}
    folders = sorted(place for place in places if os.path.isdir(place))
    return [
        f"{entry.name} (a link to nothing)" if _is_dead(entry) else entry.name
        for folder in folders[:1]
        for entry in entries(folder)
    ]


def dead_link(folders: Iterable[Path]) -> str:
    """Say which link in some folders leads nowhere, the first; nothing where none does."""
    dead = (entry for folder in folders for entry in entries(folder) if _is_dead(entry))
    link = next(dead, None)
    return f" {link} is a link to {os.readlink(link)}, which is not there." if link else ""


def _is_dead(entry: Path) -> bool:
    return entry.is_symlink() and not os.path.exists(entry)


def holds_databases(folder: Path) -> bool:
    """Whether a folder is named as one of databases, and has some."""
    named = folder.name.lower().endswith(("databases", "database"))
    return named and bool(database_files(folder))


def named_databases(rows: Sequence[Row], folders: Iterable[Path]) -> dict[str, Path]:
    """Return those of the folders' databases that a row names; for folders of any name."""
    wanted = _references(rows)
    found: dict[str, Path] = {}
    for folder in folders:
        known = database_files(folder)
        found |= {name: known[name] for name in wanted if name in known and name not in found}
    return found


def referenced_databases(
    rows: Sequence[Row], folder: Path, known: Mapping[str, Path], within: Path | None
) -> dict[str, Path]:
    """Return the databases that rows name by a path relative to ``folder``, by a short db_id.

    The db_id is the file's name without its ending where that is unique, else the path as
    written. A file that is missing, or not ``within`` this folder, is left out.
    """
    there = {resolve(file, folder) for file in known.values()}
    paths: dict[Path, str] = {}
    for reference in _references(rows):
        if reference not in known and (file := _file(reference, folder, within)):
            paths.setdefault(file, reference)
    fresh = {file: reference for file, reference in paths.items() if file not in there}
    stems = Counter([*known, *(file.stem for file in fresh)])
    return {
        file.stem if stems[file.stem] == 1 else reference: file for file, reference in fresh.items()
    }


def resolve(reference: str | Path, folder: Path) -> Path:
    """Return the absolute path, links followed, of a path that is relative to ``folder``.

    A path as Windows writes it, with backslashes, is one too.
    """
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


def _file(reference: str, folder: Path, within: Path | None) -> Path | None:
    """Return the file that a path means, where it may be used."""
    if not is_path(reference) or "\0" in reference:
        return None
    file = resolve(reference, folder)
    allowed = within is None or file.is_relative_to(within)
    return file if allowed and os.path.isfile(file) else None
