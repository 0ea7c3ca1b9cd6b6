"""How fast right queries are beside gold: BIRD's efficiency scores, measured on warm connections.

Times of queries depend on the machine, its load, SQLite's version and what is cached; they do not
come out the same twice. What is said of two policies holds only where both were measured in one go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import median

from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox, Status, cut_suffix

REPEATS = 7

DEFINITIONS = {
    "r_ves": "R-VES of BIRD mini-dev (bird-bench/mini_dev, evaluation_ves.py): a match earns the "
    "square root of 1.25 where gold takes at least twice its time, of 1 from the same time on, of "
    "0.75 from half, of 0.5 from a quarter, else of 0.25; anything else 0. Two queries that take "
    "about the same time fall above or below 1 by chance",
    "ves": "VES of BIRD's paper (Li et al., 2023): a match earns the square root of gold's time by "
    "its own; anything else 0",
}
"""What each score means; both are means over all questions, also those that do not match.

Here a time is the median of several runs, gold and prediction by turns on one connection after a
run of each that does not count, rows read and digested; the official scripts take the mean ratio of
100 pairs on new connections. A query that is gold's own text has ratio 1 without being run.
"""

_REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))

MOST = {"r_ves": sqrt(1.25)}
"""The highest value of a score that has one."""

Pair = tuple[Path, str, str]
"""Database, gold query, predicted query."""


def r_ves(ratio: float) -> float:
    """Return what a match earns whose time is gold's divided by ``ratio``."""
    return sqrt(next(reward for least, reward in _REWARDS if ratio >= least))


def time_ratios(
    pairs: Sequence[Pair],
    repeats: int = REPEATS,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> list[float | None]:
    """Return gold's time divided by the prediction's, of pairs that match.

    One worker runs everything, one query after the other. None where a query no longer runs.
    Raises Text2SqlError when a database cannot be read at all.
    """
    with Sandbox(1) as sandbox:
        return [_ratio(pair, repeats, sandbox, limits) for pair in pairs]


def _ratio(pair: Pair, repeats: int, sandbox: Sandbox, limits: Limits) -> float | None:
    database, gold, predicted = pair
    if gold.strip() == predicted.strip():
        return 1.0
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(1 + repeats):
        for sql, its in zip((gold, predicted), times, strict=True):
            result = sandbox.execute(database, sql, limits, strict_text=True)
            if result.status is not Status.OK:
                return None
            its.append(result.seconds)
    gold_time, its_time = (median(its[1:]) for its in times)
    return gold_time / max(its_time, 1e-9)


def efficiency_values(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    matched: Collection[str],
    repeats: int = REPEATS,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> dict[str, dict[str, float]]:
    """Return both scores of each question by its key; those that are not ``matched`` have 0.

    ``predictions`` are SQL by question key. A match that does not run again is left out.
    """
    right = [question for question in questions if question.key in matched]
    pairs = [(q.database, q.sql, cut_suffix(predictions[q.key])) for q in right]
    timed = time_ratios(pairs, repeats, limits)
    ratios = {q.key: ratio for q, ratio in zip(right, timed, strict=True)}
    found = {}
    for question in questions:
        ratio = ratios.get(question.key, 0.0)
        if ratio is not None:
            earned = r_ves(ratio) if question.key in ratios else 0.0
            found[question.key] = {"r_ves": earned, "ves": sqrt(ratio)}
    return found
