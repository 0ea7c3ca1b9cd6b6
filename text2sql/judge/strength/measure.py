"""Measure reward strength: run near-misses of each gold query and compare them with gold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql.errors import Text2SqlError
from text2sql.judge.known_results import KnownResults, execute_known
from text2sql.judge.strength.changes import DIALECT, changes_to
from text2sql.judge.strength.keys import Keys, read_keys
from text2sql.judge.verdicts import GoldResult, Verdict, verdict_of
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox

_QUESTIONS_AT_ONCE = 100
"""Their near-misses run together: bounds memory, and what an interruption loses."""


class NearMissOutcome(StrEnum):
    """How a near-miss compares with gold."""

    TOLD_APART = "told_apart"
    """Its result differs from gold's, so the reward calls it wrong."""
    SURVIVED = "survived"
    """It returns gold's result, so the reward calls it right."""
    FAILED = "failed"
    """It did not finish (an error, the time limit, too many rows) and does not count."""
    NEUTRAL = "neutral"
    """Equivalent by construction, whatever is in the tables: it is not run and does not count."""


@dataclass(frozen=True)
class NearMiss:
    """SQL that differs from a gold query in one thing: ``change`` says it in words.

    ``outcome`` is None until it has run; ``detail`` says why it failed or is neutral.
    """

    kind: str
    change: str
    sql: str
    outcome: NearMissOutcome | None = None
    detail: str = ""


def near_misses(sql: str, keys: Keys) -> tuple[str, list[NearMiss]]:
    """Return a query as sqlglot writes it, and its near-misses, each SQL once.

    Raises Text2SqlError where sqlglot cannot read it.
    """
    tree = _parsed(sql)
    unchanged = tree.sql(dialect=DIALECT)
    place = {id(node): number for number, node in enumerate(tree.walk())}
    found: dict[str, NearMiss] = {}
    for change in changes_to(tree, keys):
        copy = tree.copy()
        change.edit(next(islice(copy.walk(), place[id(change.place)], None)))
        text = copy.sql(dialect=DIALECT, copy=False)
        if text != unchanged:
            outcome = NearMissOutcome.NEUTRAL if change.neutral else None
            miss = NearMiss(str(change.kind), change.text, text, outcome, change.neutral)
            found.setdefault(text, miss)
    return unchanged, list(found.values())


def _parsed(sql: str) -> exp.Query:
    try:
        trees = [tree for tree in sqlglot.parse(sql, dialect=DIALECT) if tree is not None]
    except (SqlglotError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise Text2SqlError(f"sqlglot cannot read the query: {reason[:300]}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise Text2SqlError("sqlglot does not read the query as one SELECT.")
    if "cross" not in sql.lower():
        # sqlglot writes FROM a, b as CROSS JOIN, which would fix the order of SQLite's loops.
        for join in trees[0].find_all(exp.Join):
            if join.kind == "CROSS":
                join.set("kind", None)
    return trees[0]


@dataclass(frozen=True)
class Strength:
    """A question's near-misses; ``problem`` says why none were judged, empty where they were.

    ``retry``, which is not stored, says that a worker or a database failed: measure again.
    """

    key: str
    tried: tuple[NearMiss, ...] = ()
    problem: str = ""
    retry: bool = False

    @property
    def score(self) -> float | None:
        """The share of near-misses that ran and were told apart; None where none ran."""
        apart, survived = map(self.count, (NearMissOutcome.TOLD_APART, NearMissOutcome.SURVIVED))
        return apart / (apart + survived) if apart + survived and not self.problem else None

    @property
    def reason(self) -> str:
        """Why there is no score; empty where there is one."""
        if self.score is not None or self.problem:
            return self.problem
        if not self.tried:
            return "the query has no near-miss"
        failed = self.count(NearMissOutcome.FAILED)
        return "no near-miss ran" if failed else "every near-miss is equivalent by construction"

    def count(self, outcome: NearMissOutcome) -> int:
        """Return how many near-misses had an outcome."""
        return sum(tried.outcome is outcome for tried in self.tried)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return (
            {"key": self.key, "score": self.score, "reason": self.reason}
            | {outcome.value: self.count(outcome) for outcome in NearMissOutcome}
            | {"near_misses": [asdict(one) | {"outcome": str(one.outcome)} for one in self.tried]}
        )

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Strength:
        """Read what ``to_dict`` wrote."""
        rows = row["near_misses"]
        tried = (NearMiss(**one | {"outcome": NearMissOutcome(one["outcome"])}) for one in rows)
        return cls(row["key"], tuple(tried), "" if rows else row["reason"])


def measure_strength(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    sandbox: Sandbox,
    limits: Limits,
    known: KnownResults | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[Strength]:
    """Yield the strength of each question's reward, in order, run on all workers.

    A near-miss is told apart where its result is not gold's by the official rule. A gold query that
    failed, that sqlglot cannot read, or that returns something else once sqlglot has written it,
    has no score and says so. Raises Text2SqlError when a database cannot be read at all.
    """
    keys: dict[Path, Keys] = {}
    for start in range(0, len(questions), _QUESTIONS_AT_ONCE):
        group = questions[start : start + _QUESTIONS_AT_ONCE]
        for database in {q.database for q in group} - set(keys):
            keys[database] = read_keys(database, sandbox)
        made = [_made(question, golds[question.key], keys[question.database]) for question in group]
        texts = [
            (question.database, sql)
            for question, found in zip(group, made, strict=True)
            if not isinstance(found, str)
            for sql in (found[0], *(miss.sql for miss in found[1] if miss.outcome is None))
        ]
        results = iter(execute_known(texts, sandbox, limits, known))
        for question, found in zip(group, made, strict=True):
            if isinstance(found, str):
                yield Strength(question.key, problem=found)
            else:
                yield _judge(found[1], golds[question.key], results)
        if on_progress is not None:
            on_progress(start + len(group), len(questions))


def _made(question: Question, gold: GoldResult, keys: Keys) -> tuple[str, list[NearMiss]] | str:
    """Return a question's near-misses as ``near_misses`` does, or why it has none."""
    if not gold.ran:
        return f"the gold query did not run ({gold.status})"
    try:
        return near_misses(question.sql, keys)
    except Text2SqlError as error:
        return str(error)


def _judge(
    misses: Sequence[NearMiss], gold: GoldResult, results: Iterator[QueryResult]
) -> Strength:
    """Compare near-misses with gold.

    ``results`` begin with that of gold as sqlglot writes it and those of the near-misses that run.
    """
    unchanged = verdict_of(next(results), gold)
    tried = [miss if miss.outcome else _judged(miss, next(results), gold) for miss in misses]
    retry = Verdict.INFRASTRUCTURE in (unchanged, *(one.detail for one in tried))
    if unchanged is not Verdict.MATCH:
        problem = f"written by sqlglot the gold query is not the same ({unchanged})"
        return Strength(gold.key, problem=problem, retry=retry)
    return Strength(gold.key, tuple(tried), retry=retry)


def _judged(miss: NearMiss, result: QueryResult, gold: GoldResult) -> NearMiss:
    verdict = verdict_of(result, gold)
    if verdict is Verdict.MATCH:
        return replace(miss, outcome=NearMissOutcome.SURVIVED)
    if verdict is Verdict.WRONG:
        return replace(miss, outcome=NearMissOutcome.TOLD_APART)
    detail = str(verdict) if verdict is Verdict.INFRASTRUCTURE else result.error
    return replace(miss, outcome=NearMissOutcome.FAILED, detail=detail)
