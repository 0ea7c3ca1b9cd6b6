"""An answer, before and after it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.model.values import Column, ResultTable


class AnswerStatus(StrEnum):
    """How a question ended; only ``answered`` publishes a result.

    ``no_consensus``: no sampled query ran and returned rows. ``low_agreement``: the largest group
    is smaller than the question's minimum share. ``refuted``: the agreed result breaks an
    expectation or differs from the verified SQL's. ``error``: something failed.
    """

    ANSWERED = "answered"
    NO_CONSENSUS = "no_consensus"
    LOW_AGREEMENT = "low_agreement"
    REFUTED = "refuted"
    ERROR = "error"


class Verified(StrEnum):
    """How the agreed result compares with the result of the question's verified SQL.

    ``error``: the verified SQL itself did not run, so nothing was compared.
    """

    MATCH = "match"
    DIFFERS = "differs"
    ERROR = "error"


class Change(StrEnum):
    """How a published answer differs from the published one before it."""

    FIRST = "first"
    SAME = "same"
    DATA_CHANGED = "data_changed"
    SQL_CHANGED = "sql_changed"
    BOTH = "both"


@dataclass(frozen=True)
class SampledQuery:
    """A query that the policy submitted for the vote: a row of the table ``candidates``.

    ``status`` is the sandbox's status of its SQL, or why it has no vote. ``chosen``: it is in the
    group that won.
    """

    sql: str | None
    status: str
    digest: str = ""
    row_count: int = 0
    voted: bool = False
    chosen: bool = False
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class NewAnswer:
    """An answer to a question for a scheduled instant, ready to be stored.

    ``sql``, ``table`` and ``digest`` are set only when ``status`` is ``answered``.
    ``seconds`` is wall-clock time from the first prompt to the result.
    """

    question: ReportQuestion
    scheduled_at: datetime
    status: AnswerStatus
    sql: str | None = None
    table: ResultTable | None = None
    digest: str = ""
    share: float | None = None
    votes: int = 0
    tie: bool = False
    queries: tuple[SampledQuery, ...] = ()
    error: str = ""
    verified: Verified | None = None
    database_fingerprint: str = ""
    policy: str = ""
    policy_revision: str = ""
    prompt_revision: str = ""
    training_run: str = ""
    sampling: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    dagster_run_id: str = ""
    code_version: str = ""


@dataclass(frozen=True)
class StoredAnswer:
    """A row of the table ``answers``; the columns in ``schema`` explain its fields."""

    id: int
    question_id: str
    scheduled_at: datetime
    status: AnswerStatus
    change: Change | None
    sql: str | None
    columns: tuple[Column, ...]
    row_count: int | None
    rows_kept: int | None
    digest: str | None
    share: float | None
    votes: int | None
    candidates: int
    minimum_share: float
    tie: bool
    error: str | None
    verified: Verified | None
    verified_sql: str | None
    expectations: dict[str, Any] | None
    question: str
    evidence: str
    database: str
    database_fingerprint: str | None
    policy: str | None
    policy_revision: str | None
    prompt_revision: str | None
    training_run: str | None
    sampling: dict[str, Any] | None
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    dagster_run_id: str | None
    created_at: datetime
    updated_at: datetime
    code_version: str | None
