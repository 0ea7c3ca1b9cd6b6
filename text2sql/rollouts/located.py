"""Read rollouts with the file and line that each is stored in, so that numbers can be traced."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.rollouts.store import Rollout, RolloutStore


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """One line of a store; ``line`` counts from 1."""

    file: Path
    line: int

    def below(self, root: Path) -> str:
        """Name the place as people read it: the file below ``root``, a colon, the line."""
        file = self.file.relative_to(root) if self.file.is_relative_to(root) else self.file
        return f"{file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Located:
    """A rollout without its transcript, and the place of the whole record."""

    rollout: Rollout
    place: Place


class LocatedRollouts(list[Located]):
    """Rollouts and their places."""

    @property
    def rollouts(self) -> list[Rollout]:
        """The rollouts alone."""
        return [one.rollout for one in self]


def read_located(files: Iterable[Path], keys: Iterable[str], samples: int) -> LocatedRollouts:
    """Return the stored rollouts of some questions, each (key, sample) once.

    They come question by question, in the order of the files, and by sample. In one file the
    later line counts, of several files the first with a valid rollout; a rollout that an
    infrastructure failure lost is returned only if no valid one followed.
    """
    chosen: dict[str, dict[int, Located]] = {}
    asked = set(keys)
    for file in sorted(files):
        for line, rollout in enumerate(RolloutStore(file).scan(), 1):
            if rollout.key not in asked or not 0 <= rollout.sample < samples:
                continue
            by_sample = chosen.setdefault(rollout.key, {})
            known = by_sample.get(rollout.sample)
            if known is None or known.place.file == file or not known.rollout.valid:
                by_sample[rollout.sample] = Located(rollout, Place(file, line))
    return LocatedRollouts(
        by_sample[sample] for by_sample in chosen.values() for sample in sorted(by_sample)
    )


def whole_rows(places: Iterable[Place]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield rollouts with their transcripts as plain values, one by one, file by file."""
    by_file: dict[Path, set[int]] = {}
    for place in places:
        by_file.setdefault(place.file, set()).add(place.line)
    for file, numbers in sorted(by_file.items()):
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if number in numbers:
                    yield Place(file, number), json.loads(line)


def by_question(rollouts: Iterable[Rollout]) -> Iterator[tuple[str, list[Rollout]]]:
    """Yield each question's key and its valid rollouts by sample, one question after the other."""
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        group = groups.setdefault(rollout.key, [])
        if rollout.valid:
            group.append(rollout)
    for key, group in groups.items():
        yield key, sorted(group, key=lambda one: one.sample)
