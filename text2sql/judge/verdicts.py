"""Execution match and what it is worth: the verdict on a submission and its reward.

Equality is that of BIRD's official evaluator: ``set(prediction) == set(gold)`` over tuples.
Three deliberate differences make it safe: gold runs on its own, so that a prediction cannot
empty it; a missing prediction never matches, even an empty gold; and a write is never a match.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status

Rule = Literal["official", "multiset", "ordered"]
"""official: as sets. multiset: duplicates count. ordered: row order counts as well."""


class Verdict(StrEnum):
    """What became of a submission. ``INFRASTRUCTURE`` says nothing about the submission."""

    MATCH = "match"
    WRONG = "wrong"
    ERROR = "error"
    WRITE = "write"
    NO_SUBMISSION = "no_submission"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    INFRASTRUCTURE = "infrastructure"


REWARD: dict[Verdict, float | None] = {
    Verdict.MATCH: 1.0,
    Verdict.WRONG: 0.1,
    Verdict.ERROR: 0.0,
    Verdict.WRITE: -1.0,
    Verdict.NO_SUBMISSION: 0.0,
    Verdict.TIMEOUT: 0.0,
    Verdict.TOO_LARGE: 0.0,
    Verdict.TRUNCATED: 0.0,
    Verdict.INFRASTRUCTURE: None,
}
"""The reward of each verdict; None marks a rollout that must not be learnt from."""

_VERDICTS = {
    Status.ERROR: Verdict.ERROR,
    Status.WRITE: Verdict.WRITE,
    Status.NO_STATEMENT: Verdict.NO_SUBMISSION,
    Status.TIMEOUT: Verdict.TIMEOUT,
    Status.TOO_LARGE: Verdict.TOO_LARGE,
    Status.INFRASTRUCTURE: Verdict.INFRASTRUCTURE,
}


@dataclass(frozen=True)
class GoldResult:
    """What a question's gold query returns, without its rows; ``seconds`` is wall-clock time."""

    key: str
    status: Status
    digest: str
    multiset_digest: str
    ordered_digest: str
    row_count: int
    seconds: float
    error: str

    @property
    def usable(self) -> bool:
        """Whether the gold query ran, so that a submission can match it."""
        return self.status is Status.OK

    @property
    def failing(self) -> bool:
        """Whether the gold query was run and does not, so that nothing can match it."""
        return self.status not in (Status.OK, Status.INFRASTRUCTURE)

    @property
    def empty(self) -> bool:
        """Whether the gold query ran and returned no row."""
        return self.usable and self.row_count == 0

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return asdict(self) | {"status": self.status.value}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> GoldResult:
        """Read what ``to_dict`` wrote."""
        return cls(**(row | {"status": Status(row["status"])}))


def run_gold(
    question: Question,
    sandbox: Sandbox,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> GoldResult:
    """Run a question's gold query, as it is written, on its own read-only connection.

    Raises Text2SqlError when the database cannot be read at all.
    """
    result = sandbox.execute(question.database, question.sql, limits, strict_text=True)
    return gold_result(question.key, result)


def gold_result(key: str, result: QueryResult) -> GoldResult:
    """Keep of a gold query's result what submissions are judged by."""
    return GoldResult(
        key=key,
        status=result.status,
        digest=result.digest,
        multiset_digest=result.multiset_digest,
        ordered_digest=result.ordered_digest,
        row_count=result.row_count,
        seconds=result.seconds,
        error=result.error,
    )


NOTHING_SUBMITTED = QueryResult(Status.NO_STATEMENT, error="nothing was submitted")
"""What becomes of an empty submission: it is not run."""


def execute_submission(
    sql: str | None,
    database: Path,
    sandbox: Sandbox,
    limits: Limits = Limits(),  # noqa: B008 - immutable
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

    A gold query that failed matches nothing, as in the official evaluator; one that failed
    for reasons outside itself gives no verdict on the submission.
    """
    if result.status is not Status.OK:
        return _VERDICTS[result.status]
    if gold.status is Status.INFRASTRUCTURE:
        return Verdict.INFRASTRUCTURE
    if not gold.usable:
        return Verdict.WRONG
    if not result.complete:
        return Verdict.TOO_LARGE
    return Verdict.MATCH if _digest(result, rule) == _digest(gold, rule) else Verdict.WRONG


def _digest(result: QueryResult | GoldResult, rule: Rule) -> str:
    if rule == "official":
        return result.digest
    return result.multiset_digest if rule == "multiset" else result.ordered_digest
