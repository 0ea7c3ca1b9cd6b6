"""What counts as a decline of the answers: the numbers of the rule, which ``decline`` applies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """What counts as a decline.

    ``days``: how many are looked at, and how many before them; ``least``: fewer answers than
    that say nothing; ``answered`` and ``verified``: shares below these are too low; ``drop``: a
    share that fell by more is a decline, wherever it is now.
    """

    days: int = 7
    least: int = 20
    answered: float = 0.5
    verified: float = 0.5
    drop: float = 0.15
