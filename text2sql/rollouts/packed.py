"""Rollouts packed into some 100 bytes each, so that scoring a great many takes little memory."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from math import isnan, nan
from typing import Any, overload

from text2sql.errors import Text2SqlError
from text2sql.rollouts.store import Rollout

_FORM = struct.Struct("<8I6q2d")
_KEY = struct.Struct("<4xI")


class RolloutTable(Sequence[Rollout]):
    """Rollouts without transcripts; each is made anew where it is looked at.

    Texts that recur (question keys, verdicts, digests, errors) are kept once. Without ``sql``
    the submissions are left out too: of a great many rollouts nearly every one is different.
    """

    def __init__(self, rollouts: Iterable[Rollout] = (), sql: bool = True) -> None:
        self._sql = sql
        self._rows = bytearray()
        self._order = array("L")
        self._values: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        for rollout in rollouts:
            self.append(rollout)

    def append(self, rollout: Rollout) -> None:
        """Add a rollout at the end; raises Text2SqlError where a field is of another type."""
        try:
            row = self._pack(rollout)
        except (struct.error, TypeError) as error:
            place = f"The rollout {rollout.key}, sample {rollout.sample}"
            raise Text2SqlError(f"{place} is malformed ({error}); draw it again.") from error
        self._order.append(len(self._rows) // _FORM.size)
        self._rows += row

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Rollout]:
        return map(self._unpack, self._order)

    @overload
    def __getitem__(self, index: int) -> Rollout: ...
    @overload
    def __getitem__(self, index: slice) -> RolloutTable: ...
    def __getitem__(self, index: int | slice) -> Rollout | RolloutTable:
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        return self._unpack(self._order[index])

    def keys(self) -> Iterator[str]:
        """Yield the rollouts' question keys, far faster than the rollouts."""
        for row in self._order:
            yield self._values[_KEY.unpack_from(self._rows, row * _FORM.size)[0]]

    def select(self, indices: Iterable[int]) -> RolloutTable:
        """Return some of the rollouts in another order; nothing is copied."""
        selected = copy(self)
        selected._order = array("L", (self._order[index] for index in indices))
        return selected

    def where(self, holds: Callable[[Rollout], bool]) -> RolloutTable:
        """Return those rollouts for which something holds; nothing is copied."""
        return self.select(index for index, rollout in enumerate(self) if holds(rollout))

    def _pack(self, rollout: Rollout) -> bytes:
        origin = (rollout.policy, rollout.mode, rollout.run_id, *rollout.drawn_as)
        return _FORM.pack(
            self._number(origin, (*origin[:5], rollout.sampling)),
            self._number(rollout.key),
            self._number(rollout.sql if self._sql else None),
            self._number(str(rollout.status)),
            self._number(str(rollout.verdict)),
            self._number(rollout.digest),
            self._number(rollout.stop_reason),
            self._number(rollout.error),
            rollout.sample,
            rollout.row_count,
            rollout.write_attempts,
            rollout.turns,
            rollout.prompt_tokens,
            rollout.completion_tokens,
            rollout.seconds,
            nan if rollout.reward is None else rollout.reward,
        )

    def _number(self, name: Hashable, value: Any = None) -> int:
        """Return the number of a value that is kept once; ``name`` tells equal ones."""
        number = self._numbers.setdefault(name, len(self._values))
        if number == len(self._values):
            self._values.append(name if value is None else value)
        return number

    def _unpack(self, row: int) -> Rollout:
        values = self._values
        origin, key, sql, status, verdict, digest, stop_reason, error, *numbers = _FORM.unpack_from(
            self._rows, row * _FORM.size
        )
        sample, row_count, write_attempts, turns, prompt, completion, seconds, reward = numbers
        policy, mode, run_id, policy_revision, prompt_revision, sampling = values[origin]
        return Rollout(
            key=values[key],
            sample=sample,
            policy=policy,
            policy_revision=policy_revision,
            prompt_revision=prompt_revision,
            mode=mode,
            sampling=sampling,
            messages=[],
            calls=[],
            sql=values[sql],
            status=values[status],
            verdict=values[verdict],
            digest=values[digest],
            row_count=row_count,
            reward=None if isnan(reward) else reward,
            write_attempts=write_attempts,
            turns=turns,
            prompt_tokens=prompt,
            completion_tokens=completion,
            seconds=seconds,
            stop_reason=values[stop_reason],
            error=values[error],
            run_id=run_id,
        )


def by_question(rollouts: Sequence[Rollout]) -> Iterator[tuple[str, list[Rollout]]]:
    """Yield each question's key and its valid rollouts by sample, one question after the other."""
    indices: dict[str, array[int]] = {}
    for index, key in enumerate(_keys(rollouts)):
        indices.setdefault(key, array("L")).append(index)
    for key, found in indices.items():
        valid = (one for one in map(rollouts.__getitem__, found) if one.valid)
        yield key, sorted(valid, key=lambda one: one.sample)


def _keys(rollouts: Sequence[Rollout]) -> Iterator[str]:
    if isinstance(rollouts, RolloutTable):
        return rollouts.keys()
    return (rollout.key for rollout in rollouts)
