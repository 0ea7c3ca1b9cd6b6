"""Running what was stored of an answer once more, to see whether it would come out the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from text2sql.errors import InfrastructureError
from text2sql.judge.equality import same
from text2sql.judge.voting import Submission, Vote, vote
from text2sql.reporting.model.answer import AnswerStatus, SampledQuery, StoredAnswer, Verified
from text2sql.reporting.model.diff import RowChanges, compare_rows
from text2sql.reporting.model.question import database_fingerprint
from text2sql.reporting.model.values import decode_row, result_table
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import Limits, Sandbox, Status, check_database, clean_sql

_COUNTED_ROWS = 1_000_000


@dataclass(frozen=True)
class Replay:
    """What came of running an answer's SQL and its candidates' SQL again, now.

    ``error`` says why the published SQL did not run; ``rows`` compares its result with the
    stored one, of which ``complete`` tells whether all rows are kept. ``candidates_changed``
    of ``candidates_run`` gave another result. ``latest`` is the question's latest published
    answer where that is another one. ``verified`` compares what was agreed on with the verified
    SQL that the question has now; None where there is none, or nothing to compare.
    """

    answer: StoredAnswer
    fingerprint: str
    result_changed: bool
    rows: RowChanges
    complete: bool
    error: str
    candidates_run: int
    candidates_changed: int
    ballot: Vote
    latest: StoredAnswer | None
    verified: Verified | None = None

    @property
    def refuted(self) -> bool:
        """Whether it was published and the verified SQL gives something else now."""
        return self.verified == Verified.DIFFERS and self.answer.status == AnswerStatus.ANSWERED

    @property
    def data_changed(self) -> bool:
        """Whether the database is not the one that was asked."""
        return self.fingerprint != self.answer.database_fingerprint

    @property
    def sql_changed(self) -> bool:
        """Whether the question is answered by other SQL since."""
        return self.latest is not None and self.latest.sql != self.answer.sql

    @property
    def reproduced(self) -> bool:
        """Whether everything that ran gave what it gave then."""
        return not (self.result_changed or self.error or self.candidates_changed)


def replay_answer(
    store: ReportingStore, answer: StoredAnswer, sandbox: Sandbox, seconds: float = 30.0
) -> Replay:
    """Run an answer's SQL again, read-only, each statement for at most so many seconds.

    Raises Text2SqlError where the database is gone or no database, and InfrastructureError
    where a worker fails.
    """
    database = check_database(answer.database)
    store.refuse_database(database)
    before = database_fingerprint(database)
    candidates = store.sampled_queries(answer)
    limits = Limits(seconds=seconds, max_rows=_COUNTED_ROWS)
    ran = [_run(candidate, index, database, sandbox, limits)
           for index, candidate in enumerate(candidates)]  # fmt: skip
    changed, rows, complete, error = _published(store, answer, database, sandbox, seconds)
    latest = store.latest_published(answer.question_id)
    return Replay(
        answer,
        before,
        changed,
        rows,
        complete,
        error,
        sum(one is not None for one in ran),
        _count_changed(candidates, ran),
        vote([one for one in ran if one is not None]),
        latest if latest and latest.id != answer.id else None,
        _compare_with_verified(
            store.verified_sql(answer.question_id),
            [now.digest for then, now in zip(candidates, ran, strict=True) if then.chosen and now],
            database,
            sandbox,
            limits,
        ),
    )


def _compare_with_verified(
    sql: str | None, agreed: Sequence[str], database: Path, sandbox: Sandbox, limits: Limits
) -> Verified | None:
    """Run verified SQL, and compare its result with those of the candidates that won."""
    if sql is None or not agreed:
        return None
    result = sandbox.execute(database, clean_sql(sql), limits)
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(result.error)
    if result.status is not Status.OK:
        return Verified.ERROR
    return Verified.MATCH if same(result, agreed[0]) else Verified.DIFFERS


def _run(
    candidate: SampledQuery, index: int, database: Path, sandbox: Sandbox, limits: Limits
) -> Submission | None:
    """Run what a candidate submitted; None where it submitted nothing that ran."""
    if candidate.sql is None or candidate.status != Status.OK:
        return None
    result = sandbox.execute(database, candidate.sql, limits)
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(result.error)
    valid = result.status is Status.OK and result.complete
    return Submission(index, candidate.sql, result.digest, result.row_count, valid)


def _count_changed(candidates: Sequence[SampledQuery], ran: Sequence[Submission | None]) -> int:
    pairs = zip(candidates, ran, strict=True)
    return sum(now is not None and not same(now.digest, then.digest) for then, now in pairs)


def _published(
    store: ReportingStore, answer: StoredAnswer, database: Path, sandbox: Sandbox, seconds: float
) -> tuple[bool, RowChanges, bool, str]:
    """Compare the published SQL's result with the stored one: changed, rows, complete, error."""
    if answer.status != AnswerStatus.ANSWERED or answer.sql is None:
        return False, RowChanges(), True, ""
    kept = answer.rows_kept or 0
    limits = Limits(seconds=seconds, keep_rows=kept + 1, max_rows=_COUNTED_ROWS)
    result = sandbox.execute(database, answer.sql, limits)
    if result.status is Status.INFRASTRUCTURE:
        raise InfrastructureError(result.error)
    if result.status is not Status.OK:
        return True, RowChanges(), True, result.error or result.status.value
    table = result_table(result.columns, result.rows, result.row_count)
    now = [decode_row(row, marks) for row, marks in zip(table.rows, table.marks, strict=True)]
    complete = answer.row_count == kept and len(now) == result.row_count
    return (
        not same(result, answer.digest, "multiset"),
        compare_rows(store.rows(answer), now if complete else now[:kept]),
        complete,
        "",
    )
