"""Running an answer's stored queries again, to see whether the results are the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from text2sql.errors import InfrastructureError
from text2sql.judge.equality import same
from text2sql.judge.voting import Submission, Vote, vote
from text2sql.reporting.model.answer import AnswerStatus, SampledQuery, StoredAnswer, Verified
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
    again = _Rerun(database, sandbox, seconds)
    queries = store.sampled_queries(answer)
    submissions = [again.submission(query, index) for index, query in enumerate(queries)]
    ran = [(query, now) for query, now in zip(queries, submissions, strict=True) if now]
    latest = store.latest_published(answer.question_id)
    agreed = next((now.digest for query, now in ran if query.chosen), None)
    return Replay(
        answer,
        fingerprint,
        again.published(store, answer),
        len(ran),
        sum(not same(now.digest, query.digest) for query, now in ran),
        vote([now for _, now in ran]),
        latest if latest and latest.id != answer.id else None,
        again.compare(store.verified_sql(answer.question_id), agreed),
    )


@dataclass(frozen=True)
class _Rerun:
    """Runs stored SQL on the database as it is now."""

    database: Path
    sandbox: Sandbox
    seconds: float

    def _run(self, sql: str, keep_rows: int = 0) -> QueryResult:
        limits = Limits(seconds=self.seconds, max_rows=_COUNTED_ROWS, keep_rows=keep_rows)
        result = self.sandbox.execute(self.database, sql, limits)
        if result.status is Status.INFRASTRUCTURE:
            raise InfrastructureError(result.error)
        return result

    def submission(self, query: SampledQuery, index: int) -> Submission | None:
        """Run a sampled query; None if it did not run before."""
        if query.sql is None or query.status != Status.OK:
            return None
        result = self._run(query.sql)
        valid = result.status is Status.OK and result.complete
        return Submission(index, query.sql, result.digest, result.row_count, valid)

    def compare(self, verified_sql: str | None, agreed: str | None) -> Verified | None:
        """Compare the digest of the agreed result with the result of verified SQL."""
        if verified_sql is None or agreed is None:
            return None
        result = self._run(clean_sql(verified_sql))
        if result.status is not Status.OK:
            return Verified.ERROR
        return Verified.MATCH if same(result, agreed) else Verified.DIFFERS

    def published(self, store: ReportingStore, answer: StoredAnswer) -> Published:
        """Run the published SQL and compare its result with the stored one."""
        if answer.status != AnswerStatus.ANSWERED or answer.sql is None:
            return Published()
        kept = answer.rows_kept or 0
        result = self._run(answer.sql, keep_rows=kept + 1)
        if result.status is not Status.OK:
            return Published(changed=True, error=result.error or result.status.value)
        table = result_table(result.columns, result.rows, result.row_count)
        now = [decode_row(row, marks) for row, marks in zip(table.rows, table.marks, strict=True)]
        complete = answer.row_count == kept and len(now) == result.row_count
        rows = compare_rows(store.rows(answer), now if complete else now[:kept])
        return Published(not same(result, answer.digest, "multiset"), rows, complete)
