"""What sampling costs: measured while rollouts are drawn, estimated before more are drawn.

Each shard keeps a pace file beside its store, which later runs of the same policy use. Without a
measurement there is no estimate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import time
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.files import write_whole
from text2sql.errors import Text2SqlError
from text2sql.rollouts.store import RolloutStore

PACE = ".pace.json"
_EVERY = 15.0  # seconds between two notes
_LOOKED_AT = 2_000  # rollouts that a mean is taken from at most


@dataclass(frozen=True)
class Tokens:
    """The mean tokens of a rollout over ``rollouts`` valid ones."""

    rollouts: int
    prompt: float
    completion: float


@dataclass(frozen=True)
class Pace:
    """The pace of one shard: ``rollouts`` drawn between two Unix times in seconds."""

    run_id: str
    rollouts: int
    began: float
    ended: float


@dataclass(frozen=True)
class Estimate:
    """The cost of drawing ``rollouts`` at ``rate`` a second (all shards); None is unknown."""

    rollouts: int
    tokens: Tokens | None = None
    rate: float | None = None

    @property
    def hours(self) -> float | None:
        """The time in hours at the measured rate."""
        return self.rollouts / self.rate / 3600 if self.rate else None

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON numbers, without unknown ones."""
        found: dict[str, Any] = {"rollouts": self.rollouts}
        if self.tokens:
            found["prompt_tokens"] = round(self.rollouts * self.tokens.prompt)
            found["completion_tokens"] = round(self.rollouts * self.tokens.completion)
            found["measured_on"] = self.tokens.rollouts
        if self.rate and self.hours is not None:
            found |= {"rollouts_per_second": round(self.rate, 3), "hours": round(self.hours, 3)}
        return found

    def __str__(self) -> str:
        """Return the estimate as a sentence."""
        if not self.rollouts:
            return "No rollout is missing: nothing will be asked."
        parts = [f"{counted(self.rollouts, 'rollout')} to ask"]
        if self.tokens:
            total = (self.rollouts * self.tokens.prompt, self.rollouts * self.tokens.completion)
            parts.append(
                f"about {total[0]:,.0f} prompt and {total[1]:,.0f} completion tokens "
                f"(the mean of {counted(self.tokens.rollouts, 'rollout')} of this policy)"
            )
        else:
            parts.append("tokens unknown: this policy has no rollouts yet")
        if self.rate and self.hours is not None:
            parts.append(f"{duration(self.hours * 3600)} at {self.rate:.2f} a second as last time")
        else:
            parts.append("time unknown until the first shard has measured it (see its log)")
        return "; ".join(parts) + "."


def duration(seconds: float) -> str:
    """Format a time span: ``40 s``, ``12 min``, ``4.2 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def estimate(rollouts: int, folders: Sequence[Path]) -> Estimate:
    """Estimate the cost of a number of rollouts of a policy from the folders of its stores."""
    stores = [store for folder in folders for store in sorted(folder.glob("*.jsonl"))]
    return Estimate(rollouts, mean_tokens(stores), _rate(folders))


def mean_tokens(stores: Iterable[Path]) -> Tokens | None:
    """Return the mean tokens of the first valid rollouts in stores; None without any."""
    lines = (rollout for store in stores for rollout in RolloutStore(store).scan())
    seen = list(islice((rollout for rollout in lines if rollout.valid), _LOOKED_AT))
    if not seen:
        return None
    prompt = sum(rollout.prompt_tokens for rollout in seen) / len(seen)
    return Tokens(len(seen), prompt, sum(r.completion_tokens for r in seen) / len(seen))


def _rate(folders: Iterable[Path]) -> float | None:
    """Return the rate of the run that drew the most rollouts."""
    runs: dict[str, list[Pace]] = {}
    for file in (file for folder in folders for file in sorted(folder.glob(f"*{PACE}"))):
        try:
            pace = Pace(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise Text2SqlError(
                f"{file} cannot be read as the pace of a shard ({error}): delete it; it is only "
                "used for estimates."
            ) from error
        runs.setdefault(pace.run_id, []).append(pace)
    if not runs:
        return None
    largest = max(runs.values(), key=lambda run: sum(pace.rollouts for pace in run))
    seconds = max(pace.ended for pace in largest) - min(pace.began for pace in largest)
    drawn = sum(pace.rollouts for pace in largest)
    return drawn / seconds if drawn and seconds > 0 else None


class PaceKeeper:
    """A progress callback that measures a shard and reports its progress to ``tell``.

    ``store`` is the shard's store, whose pace file is written every 15 seconds and by ``note``;
    ``drawn`` counts new rollouts.
    """

    def __init__(self, store: Path, run_id: str, tell: Callable[[str], None]) -> None:
        self.store = store
        self.run_id = run_id
        self.tell = tell
        self.began = self._noted = time()
        self.drawn = 0
        self._last: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` rollouts exist; the first call is the start."""
        if self._last is not None and done > self._last:
            self.drawn += done - self._last
        self._last = done
        if time() - self._noted < _EVERY:
            return
        self._noted = time()
        self.note()
        text = f"{done:,} of {counted(total, 'rollout')}"
        if rate := self.drawn / (self._noted - self.began):
            tokens = mean_tokens([self.store])
            each = f"; {tokens.prompt + tokens.completion:,.0f} tokens each" if tokens else ""
            left = duration((total - done) / rate)
            text += f"; {rate:.2f} a second{each}; about {left} to go in this shard"
        self.tell(f"{text}.")

    def note(self) -> None:
        """Write the pace file, unless nothing was drawn."""
        if not self.drawn:
            return
        pace = Pace(self.run_id, self.drawn, round(self.began, 3), round(time(), 3))
        file = self.store.with_name(self.store.stem + PACE)
        write_whole(file, json.dumps(asdict(pace)) + "\n")
