"""Where each rollout lies: the store's file and the line in it, so that numbers can be traced."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.rollout_store import Rollout, RolloutStore


@dataclass(frozen=True, order=True)
class Place:
    """One line of a store; ``line`` counts from 1."""

    file: Path
    line: int

    def below(self, root: Path) -> str:
        """Name the place as people read it: the file below ``root``, a colon, the line."""
        file = self.file.relative_to(root) if self.file.is_relative_to(root) else self.file
        return f"{file}:{self.line}"


@dataclass(frozen=True)
class Located:
    """A rollout without its transcript, and where it lies whole."""

    rollout: Rollout
    place: Place


def read_located(files: Iterable[Path], keys: Iterable[str], samples: int) -> list[Located]:
    """Return the rollouts of some questions as far as they are there, each (key, sample) once.

    In one file the later line holds, of several files the first with a valid rollout; a rollout
    that the infrastructure spoilt is returned only where no valid one followed.
    """
    found: dict[tuple[str, int], Located] = {}
    wanted = set(keys)
    for file in sorted(files):
        for place, one in _last_lines(file, wanted, samples).items():
            known = found.get(place)
            if known is None or not known.rollout.valid:
                found[place] = one
    return list(found.values())


def _last_lines(file: Path, keys: set[str], samples: int) -> dict[tuple[str, int], Located]:
    found: dict[tuple[str, int], Located] = {}
    for line, rollout in enumerate(RolloutStore(file).scan(), 1):
        if rollout.key in keys and rollout.sample < samples:
            found[rollout.key, rollout.sample] = Located(rollout, Place(file, line))
    return found


def whole_rows(places: Iterable[Place]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield rollouts with their transcripts as plain values, one by one, file by file."""
    by_file: dict[Path, set[int]] = {}
    for place in places:
        by_file.setdefault(place.file, set()).add(place.line)
    for file, wanted in sorted(by_file.items()):
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if number in wanted:
                    yield Place(file, number), json.loads(line)
