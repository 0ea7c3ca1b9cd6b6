"""Looking through folders: what is nearest to the root, without hidden files and macOS's rests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from text2sql.errors import Text2SqlError

_DEPTH = 12
_LITTER = ("__macosx", "thumbs.db", "desktop.ini")

Found = list[tuple[int, Path]]
"""Paths with their depth below the root, which is 0."""


def is_litter(name: str) -> bool:
    """Whether a file or folder is hidden, or was added by macOS or Windows."""
    return name.startswith(".") or name.lower() in _LITTER


def entries(folder: Path) -> list[Path]:
    """Return what lies in a folder, sorted by name, without litter."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if not is_litter(name)]
    except OSError as error:
        raise Text2SqlError(f"Cannot read the folder {folder}: {error.strerror}.") from error


def walk(
    root: Path, closed: Callable[[Path], bool] = lambda folder: False
) -> Iterator[tuple[int, Path]]:
    """Yield (depth, folder) from the root down; folders that are ``closed`` are not entered.

    A folder that several links lead to is visited once, where it is nearest.
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


def nearest(found: Found, pattern: str, what: str) -> Path | None:
    """Return the path of that name at the lowest depth; two there are the user's to decide.

    Names are compared without regard to case.
    """
    named = [(depth, path) for depth, path in found if fnmatchcase(path.name.lower(), pattern)]
    if not named:
        return None
    lowest = min(depth for depth, _ in named)
    paths = [path for depth, path in named if depth == lowest]
    if len(paths) > 1:
        names = " and ".join(str(path) for path in paths[:2])
        raise Text2SqlError(f"Both {names} could be {what}; point at the folder of one of them.")
    return paths[0]
