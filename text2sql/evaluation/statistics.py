"""The uncertainty of accuracies: intervals, a paired test, pass@k."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from math import comb, sqrt
from operator import mul
from statistics import NormalDist, fmean, stdev

_Z = NormalDist().inv_cdf(0.975)
_RESAMPLES = 1000
_SEED = 20_240_601


def wilson(successes: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % score interval for a share of ``n`` independent questions.

    Without questions nothing is known: (0.0, 1.0). Source: E. B. Wilson, "Probable inference,
    the law of succession, and statistical inference", JASA 22 (1927).
    """
    _check_counts(successes, n)
    if n == 0:
        return 0.0, 1.0
    z = _Z
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return low, high


def mcnemar(won: int, lost: int) -> float:
    """Return the exact two-sided p-value that two policies are equally good.

    ``won`` questions only the second answers, ``lost`` only the first; questions on which both
    agree say nothing. Source: Q. McNemar, Psychometrika 12 (1947), in its binomial form.
    """
    if won < 0 or lost < 0:
        raise ValueError(f"counts of won and lost questions are negative: {won}, {lost}")
    n, k = won + lost, min(won, lost)
    tail = sum(comb(n, i) for i in range(k + 1)) / 2**n
    return min(1.0, 2 * tail)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p-values adjusted for testing all of them, in their order.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
    of Statistics 6 (1979).
    """
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = largest
    return adjusted


def p_text(p: float) -> str:
    """Write a p-value with two digits, with more where they would hide the side of 0.05.

    One that is too small for a float is "< 1e-300": no p-value is zero.
    """
    if p < 1e-300:
        return "< 1e-300"
    texts = (f"{p:.{digits}g}" for digits in range(2, 18))
    return next(text for text in texts if p == 0.05 or float(text) != 0.05)


def p_equals(p: float) -> str:
    """Write ``p = 0.36``, or ``p < 1e-300``."""
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def paired_difference(won: int, lost: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of the second accuracy minus the first, over ``n`` common questions.

    ``won`` questions only the second answers, ``lost`` only the first. Wald's interval with half
    a question added to each of the four cells, within -1 and 1; without questions nothing is
    known: (-1.0, 1.0). Source: A. Agresti and Y. Min, "Simple improved confidence intervals for
    comparing matched proportions", Statistics in Medicine 24 (2005).
    """
    if min(won, lost) < 0 or won + lost > n:
        raise ValueError(f"{won} won and {lost} lost of {n} questions is impossible")
    if n == 0:
        return -1.0, 1.0
    total, net = n + 2, won - lost
    half = _Z * sqrt(won + lost + 1 - net * net / total) / total
    return max(-1.0, net / total - half), min(1.0, net / total + half)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Return the chance that at least one of ``k`` of the ``n`` rollouts drawn is correct.

    The unbiased estimator of M. Chen et al., "Evaluating large language models trained on
    code" (2021), section 2.1.
    """
    _check_counts(correct, n)
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs 1 <= k <= the number of rollouts, which is {n}")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def mean_interval(values: Sequence[float], most: float = 1.0) -> tuple[float, float]:
    """Return the normal 95 % interval of a mean over independent questions, within 0 and ``most``.

    Where all values are equal their spread says nothing: Wilson's interval of as large a share of
    ``most`` is wide enough for any values between. Without questions nothing is known:
    (0.0, ``most``).
    """
    if not values:
        return 0.0, most
    if min(values) == max(values):
        low, high = wilson(len(values) * min(1.0, values[0] / most), len(values))
        return most * low, most * high
    half = _Z * stdev(values) / sqrt(len(values))
    return max(0.0, fmean(values) - half), min(most, fmean(values) + half)


def bootstrap(columns: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return the 95 % interval of each column's mean; a place in the columns is a question.

    Percentiles of the means of resampled questions (B. Efron, "Bootstrap methods", Annals of
    Statistics 7, 1979), the same resamples for every column, so equal input gives equal
    intervals. A column of zeros and ones is a share: it gets Wilson's interval, which also
    holds where all are equal. Without questions nothing is known: (0.0, 1.0).
    """
    n = len(columns[0]) if columns else 0
    shares = [set(column) <= {0.0, 1.0} for column in columns]
    unsure = [column for column, share in zip(columns, shares, strict=True) if not share]
    means = iter(_resampled_means(unsure, n))
    return [
        wilson(int(sum(column)), n) if share else _percentiles(next(means))
        for column, share in zip(columns, shares, strict=True)
    ]


def _resampled_means(columns: Sequence[Sequence[float]], n: int) -> list[list[float]]:
    """Return each column's means; equal questions are drawn as one kind, which is faster."""
    if n < 2 or not columns:
        return [[] for _ in columns]
    rows = list(zip(*columns, strict=True))
    kinds = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    numbers = [kinds[row] for row in rows]
    values = list(zip(*kinds, strict=True))
    chance = random.Random(_SEED)
    means: list[list[float]] = [[] for _ in columns]
    for _ in range(_RESAMPLES):
        counts = Counter(chance.choices(numbers, k=n))
        weights = [counts[kind] for kind in range(len(kinds))]
        for column, found in zip(values, means, strict=True):
            found.append(sum(map(mul, weights, column)) / n)
    return means


def _percentiles(means: Sequence[float]) -> tuple[float, float]:
    if not means:
        return 0.0, 1.0
    ordered, tail = sorted(means), round(0.025 * len(means))
    return ordered[tail], ordered[-1 - tail]


def _check_counts(successes: float, n: int) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} is impossible")
