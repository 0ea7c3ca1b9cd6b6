"""Voting and pass at every k, each averaged over all choices of k of a question's rollouts.

Both are exact. A question's n rollouts are independent draws, so their order says nothing: a
subset's tie goes to each tied result equally often when the order is averaged over as well. What
is left are counts, and sums of products of binomial coefficients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

from text2sql.evaluation.statistics import bootstrap, pass_at_k
from text2sql.judge.equality import groups_of


@dataclass(frozen=True)
class Ballots:
    """How a question's rollouts voted.

    ``right`` are the sizes of the results that match gold (mostly one), ``wrong`` those of the
    others, ``silent`` counts rollouts without a vote; ``matches`` counts rollouts that match
    gold, also by an empty result, which has no vote. ``shares`` are the parts of the right groups
    that match: below 1 where floats differ by rounding, which scoring does not forgive.
    """

    right: tuple[int, ...]
    wrong: tuple[int, ...]
    silent: int
    matches: int
    shares: tuple[float, ...] = ()

    @property
    def n(self) -> int:
        """The number of rollouts."""
        return sum(self.right) + sum(self.wrong) + self.silent


@dataclass(frozen=True)
class CurvePoint:
    """Shares of right answers at one k, with 95 % intervals over the questions."""

    k: int
    vote: float
    vote_low: float
    vote_high: float
    ceiling: float
    ceiling_low: float
    ceiling_high: float


@dataclass(frozen=True)
class Curve:
    """A policy's curve on one part of a split: ``n`` questions, ``points`` for k = 1, 2, ..."""

    policy: str
    part: str
    name: str
    n: int
    points: tuple[CurvePoint, ...]

    @classmethod
    def from_dict(cls, row: Mapping[str, object]) -> Curve:
        """Read what ``dataclasses.asdict`` made of it."""
        points = tuple(CurvePoint(**point) for point in row["points"])  # type: ignore[attr-defined]
        return cls(**{**row, "points": points})  # type: ignore[arg-type]


def ballots(votes: Sequence[tuple[str, bool]]) -> Ballots:
    """Count votes: of each rollout what was kept of its result, empty where it has no vote, and
    whether it matches gold.
    """
    voting = [(digest, right) for digest, right in votes if digest]
    sizes: Counter[int] = Counter()
    matching: Counter[int] = Counter()
    for (_, right), group in zip(voting, groups_of([one for one, _ in voting]), strict=True):
        sizes[group] += 1
        matching[group] += right
    matched = [group for group in sizes if matching[group]]
    won = sorted((sizes[group], matching[group] / sizes[group]) for group in matched)
    return Ballots(
        right=tuple(size for size, _ in won),
        wrong=tuple(sorted(size for group, size in sizes.items() if not matching[group])),
        silent=sum(not digest for digest, _ in votes),
        matches=sum(right for _, right in votes),
        shares=tuple(share for _, share in won),
    )


def curve(policy: str, part: str, name: str, questions: Sequence[Ballots]) -> Curve:
    """Return the curve of questions that all have the same number of rollouts."""
    n = questions[0].n if questions else 0
    votes = [vote_shares(one.right, one.wrong, one.silent, one.shares) for one in questions]
    passes = [pass_shares(n, one.matches) for one in questions]
    voted, passed = _means(votes), _means(passes)
    points = tuple(
        CurvePoint(k, *vote, *ceiling)
        for k, (vote, ceiling) in enumerate(zip(voted, passed, strict=True), 1)
    )
    return Curve(policy, part, name, len(questions), points)


def _means(rows: Sequence[tuple[float, ...]]) -> list[tuple[float, float, float]]:
    """Return (mean, low, high) of each column; a row is a question."""
    columns = list(zip(*rows, strict=True))
    ends = bootstrap(columns)
    return [(sum(c) / len(c), low, high) for c, (low, high) in zip(columns, ends, strict=True)]


@lru_cache(maxsize=1 << 14)
def pass_shares(n: int, matches: int) -> tuple[float, ...]:
    """Return pass@k for k = 1 to n."""
    return tuple(pass_at_k(n, matches, k) for k in range(1, n + 1))


@lru_cache(maxsize=1 << 14)
def vote_shares(
    right: tuple[int, ...], wrong: tuple[int, ...], silent: int, shares: tuple[float, ...] = ()
) -> tuple[float, ...]:
    """Return for k = 1 to n the chance that a vote among k of n rollouts is right.

    ``shares`` are those of ``Ballots``, all 1 if they are left out.

    For each right result and each number of votes that it may win with, the ways to choose the
    others are counted: none of them has more votes, and of t + 1 results with as many it wins
    one time in t + 1.
    """
    n = sum(right) + sum(wrong) + silent
    won = [0.0] * (n + 1)
    for place, size in enumerate(right):
        others = (*right[:place], *right[place + 1 :], *wrong)
        for votes in range(1, size + 1):
            for rest, ways in enumerate(_ways(others, silent, votes)):
                won[votes + rest] += comb(size, votes) * ways * (shares[place] if shares else 1)
    return tuple(won[k] / comb(n, k) for k in range(1, n + 1))


def _ways(others: Sequence[int], silent: int, votes: int) -> list[float]:
    """Return by their number how many choices of other rollouts let a result with ``votes`` win.

    A choice with t results of as many votes counts 1 / (t + 1). Results that cannot reach
    ``votes`` are as good as silent.
    """
    rivals = [size for size in others if size >= votes]
    harmless = silent + sum(others) - sum(rivals)
    ways = [[comb(harmless, i) for i in range(harmless + 1)]]  # by ties, then by rollouts
    for size in rivals:
        ways = _with_rival(ways, size, votes)
    longest = max(map(len, ways))
    return [
        sum(row[i] / (ties + 1) for ties, row in enumerate(ways) if i < len(row))
        for i in range(longest)
    ]


def _with_rival(ways: list[list[int]], size: int, votes: int) -> list[list[int]]:
    length = max(map(len, ways)) + votes
    found = [[0] * length for _ in range(len(ways) + 1)]
    for ties, row in enumerate(ways):
        for i, count in enumerate(row):
            if not count:
                continue
            for taken in range(votes):
                found[ties][i + taken] += count * comb(size, taken)
            found[ties + 1][i + votes] += count * comb(size, votes)
    return found
