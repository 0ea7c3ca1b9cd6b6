"""Other rules and BIRD's efficiency scores: beside the official number, never in its place.

Times of queries depend on the machine, its load, SQLite's version and what is cached, and never
come out the same twice. Compare two policies only by times measured in one run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Any, get_args

from text2sql.judge.equality import Rule, same
from text2sql.judge.known_results import execute_known
from text2sql.judge.verdicts import NOTHING_SUBMITTED, GoldResult, gold_result
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status, cut_suffix

DEFINITIONS = {
    "official": "the rows as sets are equal (BIRD's execution accuracy)",
    "multiset": "the rows are equal with their duplicates, in any order",
    "ordered": "as multiset, and in the same order where the gold query's outermost SELECT has an "
    "ORDER BY; rows that tie there have no order of their own, so a right query can miss it",
    "soft_f1": "Soft-F1 of BIRD mini-dev (bird-bench/mini_dev, evaluation_f1.py): distinct rows "
    "are paired by their place, and the cells of each pair that occur in both rows are hits",
}
"""What each rule means; all give a share between 0 and 1."""

EFFICIENCY_DEFINITIONS = {
    "r_ves": "R-VES of BIRD mini-dev (bird-bench/mini_dev, evaluation_ves.py): a match earns the "
    "square root of 1.25 where gold takes at least twice its time, of 1 from the same time on, of "
    "0.75 from half, of 0.5 from a quarter, else of 0.25; anything else 0. Two queries that take "
    "about the same time fall above or below 1 by chance",
    "ves": "VES of BIRD's paper (Li et al., 2023): a match earns the square root of gold's time by "
    "its own; anything else 0",
}
"""What each efficiency score means; both are means over all questions, matched or not.

A time is the median of several runs, gold and prediction in turn on one connection after a
warm-up run of each, rows read and digested; the official scripts take the mean ratio of 100 pairs
on new connections. A query that is gold's own text has ratio 1 without being run.
"""

HIGHEST = {"r_ves": sqrt(1.25)}
"""The highest value of a score that has one other than 1."""

MOST_ROWS = 100_000
"""Larger results have no Soft-F1: their rows are not kept."""
_QUESTIONS_AT_ONCE = 16  # their rows are in memory together
_R_VES_STEPS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))

Row = tuple[Any, ...]
Values = dict[str, dict[str, float]]
"""What each rule gives, by question key."""


def rule_values(
    questions: Sequence[Question],
    files: Sequence[Mapping[str, str]],
    sandbox: Sandbox,
    limits: Limits = Limits(),
) -> list[Values]:
    """Judge predictions of several models (SQL by question key) by every rule.

    Equal queries on one question run once, unless chance or the clock has a part in them. Questions
    lost to the infrastructure have no values, and those with more than 100,000 rows no Soft-F1.
    Raises Text2SqlError when a database cannot be read at all.
    """
    found: list[Values] = [{} for _ in files]
    kept = replace(limits, keep_rows=MOST_ROWS)
    for start in range(0, len(questions), _QUESTIONS_AT_ONCE):
        group = questions[start : start + _QUESTIONS_AT_ONCE]
        predicted = [[cut_suffix(sql.get(q.key)) for sql in files] for q in group]
        texts = [(q.database, sql) for q, row in zip(group, predicted, strict=True)
                 for sql in (q.sql, *row) if sql]  # fmt: skip
        ran = iter(execute_known(texts, sandbox, kept))
        for question, row in zip(group, predicted, strict=True):
            result = next(ran)
            gold = gold_result(question.key, question.sql, result)
            for values, sql in zip(found, row, strict=True):
                prediction = next(ran) if sql else NOTHING_SUBMITTED
                values[question.key] = _values(prediction, gold, result.rows)
    return found


def _values(predicted: QueryResult, gold: GoldResult, gold_rows: Sequence[Row]) -> dict[str, float]:
    if gold.lost or predicted.status is Status.INFRASTRUCTURE:
        return {}
    if gold.failing or predicted.status is not Status.OK:
        return dict.fromkeys(DEFINITIONS, 0.0)
    found = {rule: float(same(predicted, gold, rule)) for rule in get_args(Rule)}
    if max(predicted.row_count, gold.row_count) <= MOST_ROWS:
        found["soft_f1"] = soft_f1(predicted.rows, gold_rows)
    return found


def soft_f1(predicted: Sequence[Row], gold: Sequence[Row]) -> float:
    """Return the Soft-F1 of two results; see ``DEFINITIONS`` for its source.

    In each pair of rows the predicted cells that the gold row contains are hits; the other
    predicted cells and the gold cells that the predicted row lacks are misses; each counts one part
    of the gold row's width. A row without a partner is one miss. Two empty results have 1.0.
    """
    ours, theirs = list(dict.fromkeys(predicted)), list(dict.fromkeys(gold))
    if not ours and not theirs:
        return 1.0
    hits, extra = 0.0, float(max(0, len(ours) - len(theirs)))
    lacking = float(max(0, len(theirs) - len(ours)))
    for one, other in zip(ours, theirs, strict=False):
        hits += sum(cell in other for cell in one) / len(other)
        extra += sum(cell not in other for cell in one) / len(other)
        lacking += sum(cell not in one for cell in other) / len(other)
    return 2 * hits / (2 * hits + extra + lacking) if hits else 0.0


def r_ves(ratio: float) -> float:
    """Return what a match earns whose time is gold's divided by ``ratio``."""
    return sqrt(next(reward for least, reward in _R_VES_STEPS if ratio >= least))


def time_ratios(
    pairs: Sequence[tuple[Path, str, str]], repeats: int, limits: Limits = Limits()
) -> list[float | None]:
    """Return gold's time divided by the prediction's, of (database, gold, prediction) that match.

    One worker runs everything, one query after the other. None where a query no longer runs.
    Raises Text2SqlError when a database cannot be read at all.
    """
    with Sandbox(1) as sandbox:
        return [_time_ratio(*pair, repeats, sandbox, limits) for pair in pairs]


def _time_ratio(
    database: Path, gold: str, predicted: str, repeats: int, sandbox: Sandbox, limits: Limits
) -> float | None:
    if gold.strip() == predicted.strip():
        return 1.0
    times: dict[str, list[float]] = {gold: [], predicted: []}
    for _ in range(1 + repeats):
        for sql, seconds in times.items():
            result = sandbox.execute(database, sql, limits, strict_text=True)
            if result.status is not Status.OK:
                return None
            seconds.append(result.seconds)
    gold_time, predicted_time = (median(seconds[1:]) for seconds in times.values())
    return gold_time / max(predicted_time, 1e-9)


def efficiency_values(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    matched: Collection[str],
    repeats: int,
    limits: Limits = Limits(),
) -> Values:
    """Return both efficiency scores of each question; those that are not ``matched`` have 0.

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
