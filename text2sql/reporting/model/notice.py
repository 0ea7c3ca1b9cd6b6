"""Telling people that something went wrong, on the channels that reports go to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Notice:
    """Some lines of plain text for people; ``facts`` say the same to programs.

    ``key`` is the same for the same event: a receiver can leave out what it has had.
    """

    subject: str
    text: str
    key: str
    facts: Mapping[str, str] = field(default_factory=dict)
