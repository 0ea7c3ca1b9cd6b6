"""Other ways to compare results, beside the official one and never in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from text2sql.judge.verdicts import NOTHING_SUBMITTED
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

MOST_ROWS = 100_000
"""Larger results have no Soft-F1: their rows are not kept."""
_AT_ONCE = 16
_HIDDEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_TOKEN = re.compile(r"[()]|\border\s+by\b", re.IGNORECASE)

Row = tuple[Any, ...]


Values = dict[str, dict[str, float]]
"""Question key to what each rule gives, as far as it can be said."""


def rule_values(
    questions: Sequence[Question],
    files: Sequence[Mapping[str, str]],
    sandbox: Sandbox,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> list[Values]:
    """Judge predictions of several models (SQL by question key) by every rule.

    Equal queries on one question run once. Questions that the infrastructure spoilt have no
    values, and those with more than 100,000 rows no Soft-F1. Raises Text2SqlError when a database
    cannot be read at all.
    """
    found: list[Values] = [{} for _ in files]
    for question, predicted, gold in _results(questions, files, sandbox, limits):
        for values, result in zip(found, predicted, strict=True):
            values[question.key] = _compare(question, result, gold)
    return found


def _results(
    questions: Sequence[Question],
    files: Sequence[Mapping[str, str]],
    sandbox: Sandbox,
    limits: Limits,
) -> Iterator[tuple[Question, list[QueryResult], QueryResult]]:
    """Yield each question with the results of its predictions and its gold, a few at a time."""
    kept = replace(limits, keep_rows=MOST_ROWS)
    for start in range(0, len(questions), _AT_ONCE):
        group = questions[start : start + _AT_ONCE]
        texts = [[cut_suffix(sql.get(q.key)) for sql in files] for q in group]
        wanted = [(q, sql) for q, row in zip(group, texts, strict=True) for sql in (q.sql, *row)]
        asked = list(dict.fromkeys((q.database, sql) for q, sql in wanted if sql))
        results = sandbox.execute_many(asked, kept, strict_text=True)
        ran = dict(zip(asked, results, strict=True))
        for question, row in zip(group, texts, strict=True):
            predicted = [ran.get((question.database, sql), NOTHING_SUBMITTED) for sql in row]
            yield question, predicted, ran[question.database, question.sql]


def _compare(question: Question, predicted: QueryResult, gold: QueryResult) -> dict[str, float]:
    if Status.INFRASTRUCTURE in (predicted.status, gold.status):
        return {}
    if predicted.status is not Status.OK or gold.status is not Status.OK:
        return dict.fromkeys(DEFINITIONS, 0.0)
    multiset = predicted.multiset_digest == gold.multiset_digest
    in_order = predicted.ordered_digest == gold.ordered_digest
    found = {
        "official": float(predicted.digest == gold.digest),
        "multiset": float(multiset),
        "ordered": float(in_order if orders(question.sql) else multiset),
    }
    if max(predicted.row_count, gold.row_count) <= MOST_ROWS:
        found["soft_f1"] = soft_f1(predicted.rows, gold.rows)
    return found


def orders(sql: str) -> bool:
    """Whether a query's outermost SELECT has an ORDER BY."""
    depth = 0
    for token in _TOKEN.findall(_HIDDEN.sub(" ", sql)):
        if token in "()":
            depth += 1 if token == "(" else -1
        elif depth == 0:
            return True
    return False


def soft_f1(predicted: Sequence[Row], gold: Sequence[Row]) -> float:
    """Return the Soft-F1 of two results; see ``DEFINITIONS`` for its source.

    In each pair of rows the predicted cells that the gold row has are hits; those that it has
    not, and gold cells that the predicted row has not, are misses; each counts one part of the
    gold row's width. A row without a partner is one miss. Two empty results have 1.0.
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
