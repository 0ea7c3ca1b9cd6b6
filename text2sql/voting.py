"""Execution-consistency voting: the answer that most submissions agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One submission: its rollout index, SQL and result; ``valid`` when it ran as a read."""

    index: int
    sql: str
    digest: str
    row_count: int
    valid: bool


@dataclass(frozen=True)
class Vote:
    """The outcome of a vote.

    ``sql`` and ``index`` are the winning group's first submission, empty and -1 without one.
    ``votes`` of ``k`` submissions agree, which is ``share``; ``groups`` results got votes.
    ``tie`` says that another group had as many.
    """

    sql: str
    digest: str
    index: int
    votes: int
    k: int
    share: float
    tie: bool
    groups: int

    @property
    def consensus(self) -> bool:
        """Whether anything was agreed on at all."""
        return self.index >= 0


def vote(candidates: Sequence[Candidate]) -> Vote:
    """Choose by majority over equal results; the order of the candidates has no influence.

    Every valid, non-empty result is one vote, equal SQL included. The largest group wins, a
    tie goes to the group with the lowest rollout index. The share is of all candidates.
    """
    groups: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: (c.index, c.sql, c.digest)):
        if candidate.valid and candidate.row_count > 0:
            groups.setdefault(candidate.digest, []).append(candidate)
    k = len(candidates)
    if not groups:
        return Vote("", "", -1, 0, k, 0.0, False, 0)
    winner = min(groups.values(), key=lambda group: (-len(group), group[0].index))
    votes = len(winner)
    tie = sum(len(group) == votes for group in groups.values()) > 1
    first = winner[0]
    return Vote(first.sql, first.digest, first.index, votes, k, votes / k, tie, len(groups))
