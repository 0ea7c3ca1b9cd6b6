"""The numbers to set for scheduled questions, as forms, options, messages and docs have them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bounded:
    """A number with its default and bounds; ``above`` instead of ``least`` excludes the bound."""

    default: Any
    description: str
    least: float | None = None
    most: float | None = None
    above: float | None = None

    def option(self) -> str:
        """Return the help of a command's option, with the default."""
        return f"{self.description.rstrip('.')} ({self.default})."

    def accepts(self, value: Any) -> bool:
        """Whether a value is a number of the right kind (no bool) within ``least`` and ``most``."""
        kinds = (int,) if isinstance(self.default, int) else (int, float)
        low, high = self.least or 0, self.most or math.inf
        return type(value) in kinds and bool(low <= value <= high)

    def __str__(self) -> str:
        """Return what is accepted: ``a whole number from 1 to 128``."""
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        return f"{kind} from {self.least} to {self.most}"


# A question
VOTES = Bounded(8, "Queries to sample; they vote on the result.", 1, 128)
MINIMUM_SHARE = Bounded(0.5, "Publish nothing if a smaller share of the votes agrees.", 0, 1)

# A day
LEAST_ANSWERED = Bounded(0.5, "Warn if a smaller share of the questions is answered.", 0, 1)
LEAST_AGREEMENT = Bounded(0.5, "Warn if the mean share of votes that agree is smaller.", 0, 1)
KEEP_ROWS = Bounded(10_000, "Rows of an answer to store; all are counted.", 1, 1_000_000)
MOST_ATTEMPTS = Bounded(3, "Votes on a question and day, until one is published.", 1, 100)
MOST_HOURS = Bounded(12.0, "Stop after so long, so that tomorrow need not wait.", above=0, most=168)
CONCURRENCY = Bounded(4, "Questions to answer at the same time.", 1, 256)
THREADS = Bounded(1, "CPU threads of a local policy.", 1, 256)

# A decline of the answers
DAYS = Bounded(7, "Days to look at, and to compare with the same number before them.", 1, 365)
LEAST_COMPARED = Bounded(20, "Ignore a period with fewer answers.", 1)
ANSWERED = Bounded(0.5, "A smaller share of answered questions is a decline.", 0, 1)
VERIFIED = Bounded(0.5, "A smaller share of correct verified questions is a decline.", 0, 1)
DROP = Bounded(0.15, "A share that fell by more than this is a decline.", most=1, above=0)


@dataclass(frozen=True)
class DeclineRule:
    """What counts as a decline of the answers; the constants above say what each number means."""

    days: int = DAYS.default
    least: int = LEAST_COMPARED.default
    answered: float = ANSWERED.default
    verified: float = VERIFIED.default
    drop: float = DROP.default
