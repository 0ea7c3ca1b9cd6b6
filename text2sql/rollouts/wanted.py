"""Which rollouts are wanted, which of them are there, and how many have been tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from text2sql.common.progress import Progress
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout


class Places:
    """Which samples of which questions have a valid rollout: one bit each."""

    def __init__(self, questions: Sequence[Question], samples: range) -> None:
        self._questions, self._samples = questions, samples
        self._valid = dict.fromkeys((question.key for question in questions), 0)

    @property
    def total(self) -> int:
        """How many rollouts are wanted."""
        return len(self._valid) * len(self._samples)

    @property
    def valid(self) -> int:
        """How many of them there are."""
        return sum(bits.bit_count() for bits in self._valid.values())

    def note(self, rollout: Rollout) -> bool:
        """Take the latest of a place for what counts; return whether it is one of those wanted."""
        if rollout.key not in self._valid or rollout.sample not in self._samples:
            return False
        bit = 1 << (rollout.sample - self._samples.start)
        bits = self._valid[rollout.key]
        self._valid[rollout.key] = bits | bit if rollout.valid else bits & ~bit
        return True

    def missing(self) -> Iterator[tuple[Question, int]]:
        """Yield the questions and samples that have no valid rollout when their turn comes."""
        for question in self._questions:
            for bit, sample in enumerate(self._samples):
                if not self._valid[question.key] >> bit & 1:
                    yield question, sample


class Count:
    """Tells how many rollouts are there, of how many; spoilt ones count as tried."""

    def __init__(self, places: Places, on_progress: Progress | None) -> None:
        self._done, self._total = places.valid, places.total
        self._report = on_progress or (lambda done, total: None)
        self._report(self._done, self._total)

    def one_more(self) -> None:
        """Count one that has ended."""
        self._done += 1
        self._report(self._done, self._total)
