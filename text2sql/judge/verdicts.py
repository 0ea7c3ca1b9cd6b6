"""The verdict on a submission, and its reward.

Results are equal as in BIRD's official evaluator: ``set(prediction) == set(gold)`` over tuples.
Three deliberate differences make it safe: gold runs on its own, so that a prediction cannot empty
its tables; a missing prediction never matches, even an empty gold; and a write is never a match.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql.judge.equality import Rule, same, sorts
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status

NOTHING_SUBMITTED = QueryResult(Status.NO_STATEMENT, error="nothing was submitted")
"""The result of an empty submission, which is not run."""


class Verdict(StrEnum):
    """How a submission ended. ``INFRASTRUCTURE`` says nothing about the submission itself."""

    MATCH = "match"
    WRONG = "wrong"
    ERROR = "error"
    WRITE = "write"
    NO_SUBMISSION = "no_submission"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class GoldResult:
    """What a question's gold query returns, without its rows.

    It is lost, failing, empty or usable. ``seconds`` is wall-clock time; ``sorts`` says that the
    outermost SELECT has an ORDER BY.
    """

    key: str
    status: Status
    digest: str
    multiset_digest: str
    ordered_digest: str
    row_count: int
    seconds: float
    error: str
    sorts: bool = False

    @property
    def lost(self) -> bool:
        """Whether the infrastructure failed, which says nothing about the query."""
        return self.status is Status.INFRASTRUCTURE

    @property
    def ran(self) -> bool:
        """Whether the query ran, so that a submission can match it."""
        return self.status is Status.OK

    @property
    def failing(self) -> bool:
        """Whether the query itself fails, so that nothing can match it."""
        return not (self.ran or self.lost)

    @property
    def empty(self) -> bool:
        """Whether the query ran and returned no row: any query without rows matches it."""
        return self.ran and self.row_count == 0

    @property
    def usable(self) -> bool:
        """Whether the query returned rows, so that it can tell right from wrong."""
        return self.ran and self.row_count > 0

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return vars(self) | {"status": self.status.value}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> GoldResult:
        """Read what ``to_dict`` wrote."""
        return cls(**(row | {"status": Status(row["status"])}))


def run_gold(question: Question, sandbox: Sandbox, limits: Limits = Limits()) -> GoldResult:
    """Run a question's gold query as it is written, on its own read-only connection.

    Raises Text2SqlError when the database cannot be read at all.
    """
    result = sandbox.execute(question.database, question.sql, limits, strict_text=True)
    return gold_result(question.key, question.sql, result)


def gold_result(key: str, sql: str, result: QueryResult) -> GoldResult:
    """Return what submissions are judged by: a gold query's result without its rows."""
    digests = (result.digest, result.multiset_digest, result.ordered_digest)
    measured = (result.row_count, result.seconds, result.error)
    return GoldResult(key, result.status, *digests, *measured, sorts(sql))


def execute_submission(
    sql: str | None,
    database: Path,
    sandbox: Sandbox,
    limits: Limits = Limits(),
    *,
    strict_text: bool = True,
) -> QueryResult:
    """Run a submitted query, which was cleaned when it was taken; None is no submission.

    ``strict_text`` fails it on text that is not UTF-8, as the official evaluator does; where people
    read the result, such text is read with replacement. Raises Text2SqlError when the database
    cannot be read at all.
    """
    if not sql:
        return NOTHING_SUBMITTED
    return sandbox.execute(database, sql, limits, strict_text=strict_text)


def verdict_of(result: QueryResult, gold: GoldResult, rule: Rule = "official") -> Verdict:
    """Judge a submission's result against gold.

    Nothing matches a failing gold query, as in the official evaluator; a lost one says nothing
    about the submission.
    """
    if result.status is Status.NO_STATEMENT:
        return Verdict.NO_SUBMISSION
    if result.status is not Status.OK:
        return Verdict(result.status.value)  # every other status has a verdict of its name
    if gold.lost:
        return Verdict.INFRASTRUCTURE
    if gold.failing:
        return Verdict.WRONG
    if not result.complete:
        return Verdict.TOO_LARGE
    return Verdict.MATCH if same(result, gold, rule) else Verdict.WRONG
