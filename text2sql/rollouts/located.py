"""Where each rollout lies: the store's file and the line in it, so that numbers can be traced."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, overload

from text2sql.rollouts.packed import RolloutTable
from text2sql.rollouts.store import Rollout, RolloutStore


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


class LocatedRollouts(Sequence[Located]):
    """Rollouts and where they lie, packed tightly: each is made anew where it is looked at."""

    def __init__(self, sql: bool = True) -> None:
        self.rollouts = RolloutTable(sql=sql)
        self._files: list[Path] = []
        self._places = array("L")

    def append(self, rollout: Rollout, file: Path, line: int) -> None:
        """Add a rollout at the end; those of one file come one after the other."""
        self.rollouts.append(rollout)
        if not self._files or self._files[-1] != file:
            self._files.append(file)
        self._places.extend((len(self._files) - 1, line))

    def __len__(self) -> int:
        return len(self.rollouts)

    @overload
    def __getitem__(self, index: int) -> Located: ...
    @overload
    def __getitem__(self, index: slice) -> LocatedRollouts: ...
    def __getitem__(self, index: int | slice) -> Located | LocatedRollouts:
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        index = range(len(self))[index]
        file, line = self._places[2 * index : 2 * index + 2]
        return Located(self.rollouts[index], Place(self._files[file], line))

    def select(self, indices: Iterable[int]) -> LocatedRollouts:
        """Return some of the rollouts in another order."""
        chosen = array("L", indices)
        selected = copy(self)
        selected.rollouts = self.rollouts.select(chosen)
        both = (self._places[2 * index : 2 * index + 2] for index in chosen)
        selected._places = array("L", chain.from_iterable(both))
        return selected


def read_located(
    files: Iterable[Path], keys: Iterable[str], samples: int, sql: bool = True
) -> LocatedRollouts:
    """Return the rollouts of some questions as far as they are there, each (key, sample) once.

    They come question by question, as their first ones lie there, and by samples; without
    transcripts, and without ``sql`` also without the submissions: then a great many fit into
    memory. In one file the later line holds, of several files the first with a valid rollout; a
    rollout that the infrastructure spoilt is returned only where no valid one followed.
    """
    wanted = set(keys)
    first: dict[str, int] = {}
    chosen, none = array("l"), array("l", [-1]) * samples
    found = LocatedRollouts(sql)
    for file in sorted(files):
        start = len(found)
        for line, rollout in enumerate(RolloutStore(file).scan(), 1):
            if rollout.key not in wanted or not 0 <= rollout.sample < samples:
                continue
            if rollout.key not in first:
                first[rollout.key] = len(chosen)
                chosen += none
            slot = first[rollout.key] + rollout.sample
            known = chosen[slot]
            if known < 0 or known >= start or not found.rollouts[known].valid:
                chosen[slot] = len(found)
                found.append(rollout, file, line)
    return found.select(index for index in chosen if index >= 0)


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
