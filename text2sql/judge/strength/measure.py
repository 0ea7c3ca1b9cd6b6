"""Measure reward strength: run near-misses of each gold query and compare them with gold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.errors import Text2SqlError
from text2sql.judge.known_results import KnownResults, execute_known
from text2sql.judge.strength.keys import Keys, read_keys
from text2sql.judge.strength.near_misses import NearMiss, NearMisses, near_misses
from text2sql.judge.verdicts import GoldResult, Verdict, verdict_of
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox

_AT_ONCE = 100
"""Questions whose near-misses are made and run together: bounds memory and what a break loses."""


class Outcome(StrEnum):
    """What became of a near-miss."""

    TOLD_APART = "told_apart"
    SURVIVED = "survived"
    """It returns gold's result, so the reward calls it right."""
    FAILED = "failed"
    """It did not run to its end (an error, the time limit, too many rows): it does not count."""
    NEUTRAL = "neutral"
    """Equivalent by construction: not run, and it does not count."""


@dataclass(frozen=True)
class Tried:
    """A near-miss and what became of it; ``detail`` says why it failed or is neutral."""

    kind: str
    change: str
    sql: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True)
class Strength:
    """A question's near-misses. ``problem`` says why none were judged; empty where they were."""

    key: str
    tried: tuple[Tried, ...] = ()
    problem: str = ""
    retry: bool = False
    """A worker or a database failed meanwhile: measure again. It is not written down."""

    @property
    def score(self) -> float | None:
        """The share of near-misses that ran and were told apart; None where none ran."""
        ran = self.count(Outcome.TOLD_APART) + self.count(Outcome.SURVIVED)
        return self.count(Outcome.TOLD_APART) / ran if ran and not self.problem else None

    @property
    def reason(self) -> str:
        """Why there is no score; empty where there is one."""
        if self.score is not None or self.problem:
            return self.problem
        if not self.tried:
            return "the query has no near-miss"
        failed = self.count(Outcome.FAILED)
        return "no near-miss ran" if failed else "every near-miss is equivalent by construction"

    def count(self, outcome: Outcome) -> int:
        """Return how many near-misses ended so."""
        return sum(tried.outcome is outcome for tried in self.tried)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        counts = {outcome.value: self.count(outcome) for outcome in Outcome}
        tried = [asdict(one) | {"outcome": one.outcome.value} for one in self.tried]
        return (
            {"key": self.key, "score": self.score, "reason": self.reason}
            | counts
            | {"near_misses": tried}
        )

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Strength:
        """Read what ``to_dict`` wrote."""
        tried = (one | {"outcome": Outcome(one["outcome"])} for one in row["near_misses"])
        problem = "" if row["near_misses"] else row["reason"]
        return cls(row["key"], tuple(Tried(**one) for one in tried), problem)


def measure_strength(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    sandbox: Sandbox,
    limits: Limits,
    known: KnownResults | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[Strength]:
    """Yield the strength of each question's reward, in order, run on all workers.

    A near-miss counts where it ran; it is told apart where its result is not gold's by the
    official rule. A gold query that failed, that sqlglot cannot read, or that returns something
    else once sqlglot has written it, has no score and says so. Raises Text2SqlError when a
    database cannot be read at all.
    """
    keys: dict[Path, Keys] = {}
    for start in range(0, len(questions), _AT_ONCE):
        group = questions[start : start + _AT_ONCE]
        for database in {q.database for q in group} - set(keys):
            keys[database] = read_keys(database, sandbox)
        yield from _measure(group, golds, keys, sandbox, limits, known)
        if on_progress is not None:
            on_progress(start + len(group), len(questions))


def _measure(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    keys: Mapping[Path, Keys],
    sandbox: Sandbox,
    limits: Limits,
    known: KnownResults | None,
) -> list[Strength]:
    made = [_made(question, golds[question.key], keys[question.database]) for question in questions]
    texts = [
        (question.database, sql)
        for question, found in zip(questions, made, strict=True)
        if isinstance(found, NearMisses)
        for sql in (found.unchanged, *(miss.sql for miss in found.found if not miss.neutral))
    ]
    results = iter(execute_known(texts, sandbox, limits, known))
    return [
        Strength(question.key, problem=found)
        if isinstance(found, str)
        else _judge(found, golds[question.key], results)
        for question, found in zip(questions, made, strict=True)
    ]


def _made(question: Question, gold: GoldResult, keys: Keys) -> NearMisses | str:
    """Return a question's near-misses, or why it has none."""
    if not gold.ran:
        return f"the gold query did not run ({gold.status})"
    try:
        return near_misses(question.sql, keys)
    except Text2SqlError as error:
        return str(error)


def _judge(found: NearMisses, gold: GoldResult, results: Iterator[QueryResult]) -> Strength:
    """Compare near-misses with gold; their results come first among ``results``."""
    unchanged = verdict_of(next(results), gold)
    judged = [
        (Outcome.NEUTRAL, miss.neutral) if miss.neutral else _outcome(next(results), gold)
        for miss in found.found
    ]
    tried = tuple(map(_tried, found.found, judged))
    retry = Verdict.INFRASTRUCTURE in (unchanged, *(detail for _, detail in judged))
    if unchanged is not Verdict.MATCH:
        problem = f"written by sqlglot the gold query is not the same ({unchanged})"
        return Strength(gold.key, problem=problem, retry=retry)
    return Strength(gold.key, tried, retry=retry)


def _outcome(result: QueryResult, gold: GoldResult) -> tuple[Outcome, str]:
    verdict = verdict_of(result, gold)
    if verdict is Verdict.MATCH:
        return Outcome.SURVIVED, ""
    if verdict is Verdict.WRONG:
        return Outcome.TOLD_APART, ""
    return Outcome.FAILED, str(verdict) if verdict is Verdict.INFRASTRUCTURE else result.error


def _tried(miss: NearMiss, judged: tuple[Outcome, str]) -> Tried:
    return Tried(str(miss.kind), miss.change, miss.sql, *judged)
