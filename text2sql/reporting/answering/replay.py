"""Running an answer's stored queries again, to see whether the results are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from text2sql.errors import InfrastructureError
from text2sql.judge.equality import alike
from text2sql.judge.voting import Submission, Vote, vote
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer, Verified
from text2sql.reporting.model.diff import RowChanges, compare_rows
from text2sql.reporting.model.question import database_fingerprint
from text2sql.reporting.model.values import decode_row, result_table
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status, check_database, clean_sql

_COUNTED_ROWS = 1_000_000


@dataclass(frozen=True)
class Published:
    """The published SQL's result now against the stored one.

    ``error`` says why it did not run. ``rows`` compares the stored rows; they are not ``complete``
    if only a part of the result is stored.
    """

    changed: bool = False
    rows: RowChanges = field(default_factory=RowChanges)
    complete: bool = True
    error: str = ""


@dataclass(frozen=True)
class Replay:
    """The results of running an answer's SQL and its sampled queries again, now.

    ``queries_changed`` of ``queries_run`` returned a different result; ``ballot`` is their vote
    now. ``latest`` is the question's latest published answer if that is another one. ``verified``
    compares the agreed result with the verified SQL that the question has now, None without
    either.
    """

    answer: StoredAnswer
    fingerprint: str
    published: Published
    queries_run: int
    queries_changed: int
    ballot: Vote
    latest: StoredAnswer | None
    verified: Verified | None = None

    @property
    def refuted(self) -> bool:
        """Whether it was published and the verified SQL now returns something else."""
        return self.verified == Verified.DIFFERS and self.answer.status == AnswerStatus.ANSWERED

    @property
    def data_changed(self) -> bool:
        """Whether the database has changed since."""
        return self.fingerprint != self.answer.database_fingerprint

    @property
    def sql_changed(self) -> bool:
        """Whether different SQL has answered the question since."""
        return self.latest is not None and self.latest.sql != self.answer.sql

    @property
    def reproduced(self) -> bool:
        """Whether everything that ran returned the same result as before."""
        found = self.published
        return not (found.changed or found.error or self.queries_changed)


def replay_answer(
    store: ReportingStore, answer: StoredAnswer, sandbox: Sandbox, seconds: float = 30.0
) -> Replay:
    """Run an answer's SQL again, read-only, each statement for at most ``seconds``.

    Raises Text2SqlError if the database is gone or invalid, and InfrastructureError if a worker
    fails.
    """
    database = check_database(answer.database)
    store.refuse_database(database)
    fingerprint = database_fingerprint(database)

    def run(sql: str, keep_rows: int = 0) -> QueryResult:
        limits = Limits(seconds=seconds, max_rows=_COUNTED_ROWS, keep_rows=keep_rows)
        result = sandbox.execute(database, sql, limits)
        if result.status is Status.INFRASTRUCTURE:
            raise InfrastructureError(result.error)
        return result

    submissions, changed, agreed = [], 0, None
    for index, query in enumerate(store.sampled_queries(answer)):
        if query.sql is None or query.status != Status.OK:
            continue
        result = run(query.sql)
        valid = result.status is Status.OK and result.complete
        submissions.append(Submission(index, query.sql, result.near, result.row_count, valid))
        changed += not alike(result, query.digest)
        agreed = result.near if query.chosen and agreed is None else agreed
    verified, verified_sql = None, store.verified_sql(answer.question_id)
    if verified_sql is not None and agreed is not None:
        result = run(clean_sql(verified_sql))
        verified = Verified.MATCH if alike(result, agreed) else Verified.DIFFERS
        verified = verified if result.status is Status.OK else Verified.ERROR
    latest = store.latest_published(answer.question_id)
    return Replay(
        answer,
        fingerprint,
        _published(run, store, answer),
        len(submissions),
        changed,
        vote(submissions),
        latest if latest and latest.id != answer.id else None,
        verified,
    )


def _published(
    run: Callable[[str, int], QueryResult], store: ReportingStore, answer: StoredAnswer
) -> Published:
    """Run the published SQL and compare its result with the stored one."""
    if answer.status != AnswerStatus.ANSWERED or answer.sql is None:
        return Published()
    kept = answer.rows_kept or 0
    result = run(answer.sql, kept + 1)  # one more, to notice rows that were added
    if result.status is not Status.OK:
        return Published(changed=True, error=result.error or result.status.value)
    table = result_table(result.columns, result.rows, result.row_count)
    now = [decode_row(row, marks) for row, marks in zip(table.rows, table.marks, strict=True)]
    complete = answer.row_count == kept and len(now) == result.row_count
    rows = compare_rows(store.rows(answer), now if complete else now[:kept])
    return Published(not alike(result, answer.digest, "multiset"), rows, complete)
