"""Execution-consistency voting: the result that most submissions agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from text2sql.judge.equality import groups_of


@dataclass(frozen=True)
class Submission:
    """One submission: its rollout index, its SQL, and what was kept of its result (``near``).

    ``valid`` when it ran as a read.
    """

    index: int
    sql: str
    digest: str
    row_count: int
    valid: bool

    @property
    def has_vote(self) -> bool:
        """Whether it counts: an error, a write and an empty result do not."""
        return self.valid and self.row_count > 0


@dataclass(frozen=True)
class Vote:
    """The result of a vote.

    ``sql`` and ``index`` are those of the winning group's first submission, empty and -1 without
    one. ``votes`` of ``k`` submissions agree, which is ``share``; ``groups`` different results got
    votes. ``tie``: another group had as many votes. ``members`` are the indexes of the winning
    group.
    """

    sql: str
    digest: str
    index: int
    votes: int
    k: int
    share: float
    tie: bool
    groups: int
    members: frozenset[int] = frozenset()

    @property
    def consensus(self) -> bool:
        """Whether any submission had a vote."""
        return self.index >= 0


def vote(submissions: Sequence[Submission]) -> Vote:
    """Choose the most frequent result; the order of the submissions has no influence.

    Every valid, non-empty result is one vote, also from equal SQL. The largest group wins; a tie
    goes to the group with the lowest rollout index. The share is of all submissions.
    """
    groups: dict[int, list[Submission]] = {}
    ordered = sorted(submissions, key=lambda one: (one.index, one.sql, one.digest))
    voting = [submission for submission in ordered if submission.has_vote]
    for submission, group in zip(voting, groups_of([one.digest for one in voting]), strict=True):
        groups.setdefault(group, []).append(submission)
    k = len(submissions)
    if not groups:
        return Vote("", "", -1, 0, k, 0.0, False, 0)
    winner = min(groups.values(), key=lambda group: (-len(group), group[0].index))
    votes = len(winner)
    tie = sum(len(group) == votes for group in groups.values()) > 1
    first = winner[0]
    return Vote(
        first.sql, first.digest, first.index, votes, k, votes / k, tie, len(groups),
        frozenset(one.index for one in winner),
    )  # fmt: skip
