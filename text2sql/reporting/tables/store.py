"""Writing questions and answers to the reporting tables, and reading them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from text2sql.errors import Text2SqlError
from text2sql.judge.equality import same
from text2sql.reporting.model.answer import (
    Answer,
    AnswerCandidate,
    AnswerStatus,
    StoredAnswer,
)
from text2sql.reporting.model.diff import Difference, RowChanges, compare_rows
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.database import Database
from text2sql.reporting.tables.migrating import require_current
from text2sql.reporting.tables.records import candidate_of, result_row, stored_answer
from text2sql.reporting.tables.upserts import upsert
from text2sql.reporting.tables.writing import write_answer

_answers = tables.answers
_NAMED = 5  # ids that a message names at most


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Name what was edited by hand into nonsense."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise Text2SqlError(f"{what} makes no sense: {error}") from error


class ReportingStore(Database):
    """The reporting tables in one database; a context manager, safe to use from threads.

    Every write is one transaction. A database that is down, full, locked for a minute or not
    writable raises InfrastructureError with the database's own words.
    """

    def __init__(self, url: str):
        """Open the database; in an SQLite file, bring the tables to this code's version.

        Raises Text2SqlError for a server whose tables are older, and for any that are newer.
        """
        super().__init__(url)
        with self.named_errors():
            require_current(self.writer)

    def refuse_database(self, database: Path) -> None:
        """Raise Text2SqlError if ``database``, which the agent reads, is this very file."""
        own = self.engine.url.database
        if self.engine.dialect.name != "sqlite" or not own:
            return
        asked = Path(database).resolve()
        if asked.exists() and asked.samefile(own):
            raise Text2SqlError(
                f"{database}: the agent may not read the database that its answers are written to"
            )

    # -- answers

    def write_answer(self, answer: Answer) -> StoredAnswer:
        """Store an answer with its rows and candidates in one transaction; return what is stored.

        An answer for the same question and instant is replaced and its attempts are counted;
        but an error never replaces a published answer: it is noted on it.
        """
        with self.writing() as connection:
            write_answer(connection, answer)
        stored = self.answer(answer.question.id, answer.scheduled_at)
        assert stored is not None
        return stored

    def answer(self, question_id: str, scheduled_at: datetime) -> StoredAnswer | None:
        """Return the answer of a question at an instant, or None."""
        found = self.find(
            _answers.c.question_id == question_id, _answers.c.scheduled_at == scheduled_at
        )
        return found[0] if found else None

    def find(self, *where: sa.ColumnElement[bool], most: int | None = None) -> list[StoredAnswer]:
        """Return the answers that meet conditions on the table ``answers``, the latest first.

        Raises Text2SqlError where a row was edited by hand into nonsense.
        """
        at = _answers.c.scheduled_at.desc()
        query = sa.select(_answers).where(*where).order_by(at, _answers.c.question_id).limit(most)
        try:
            return [stored_answer(row) for row in self.read(query)]
        except (ValueError, TypeError) as error:
            about = self.read(sa.select(_answers.c.id, _answers.c.question_id).where(*where))
            which = ", ".join(f"{row.id} ({row.question_id})" for row in about[:_NAMED])
            raise Text2SqlError(f"an answer of {which} makes no sense: {error}") from error

    def history(self, question_id: str) -> list[StoredAnswer]:
        """Return every answer of a question, the latest first."""
        return self.find(_answers.c.question_id == question_id)

    def latest_answers(self) -> list[StoredAnswer]:
        """Return the latest answer of each question, published or not, in order of their ids."""
        other = _answers.alias()
        latest = (
            sa.select(sa.func.max(other.c.scheduled_at))
            .where(other.c.question_id == _answers.c.question_id)
            .scalar_subquery()
        )
        found = self.find(_answers.c.scheduled_at == latest)
        return sorted(found, key=lambda answer: answer.question_id)

    def rows(self, answer: StoredAnswer, most: int | None = None) -> list[dict[str, Any]]:
        """Return the rows of an answer as they were read: infinities, integers and bytes again.

        With ``most`` only the first ones.
        """
        table = tables.answer_rows
        query = (
            sa.select(table.c.cells, table.c.marks)
            .where(table.c.answer_id == answer.id)
            .order_by(table.c.position)
            .limit(most)
        )
        with _told(f"a row of answer {answer.id} ({answer.question_id})"):
            return [result_row(row, answer.columns) for row in self.read(query)]

    def candidates(self, answer: StoredAnswer) -> list[AnswerCandidate]:
        """Return the candidates of an answer in the order in which they were sampled."""
        table = tables.candidates
        query = sa.select(table).where(table.c.answer_id == answer.id).order_by(table.c.position)
        with _told(f"a candidate of answer {answer.id} ({answer.question_id})"):
            return [candidate_of(row) for row in self.read(query)]

    def previous(self, answer: StoredAnswer) -> StoredAnswer | None:
        """Return the published answer before this one, or None."""
        found = self.find(
            _answers.c.question_id == answer.question_id,
            _answers.c.scheduled_at < answer.scheduled_at,
            _answers.c.status == AnswerStatus.ANSWERED,
        )
        return found[0] if found else None

    def difference(self, answer: StoredAnswer) -> Difference | None:
        """Compare a published answer with the one before; None where either is missing."""
        before = self.previous(answer)
        if before is None or answer.status != AnswerStatus.ANSWERED:
            return None
        if alike := same(answer.digest, before.digest, "multiset"):
            rows = RowChanges(unchanged=answer.rows_kept or 0)
        else:
            rows = compare_rows(self.rows(before), self.rows(answer))
        return Difference(
            previous_at=before.scheduled_at,
            rows=rows,
            sql_changed=answer.sql != before.sql,
            result_changed=not alike,
            data_changed=answer.database_fingerprint != before.database_fingerprint,
            complete=all(one.row_count == one.rows_kept for one in (answer, before)),
            renamed=[c.label for c in answer.columns] != [c.label for c in before.columns],
        )

    # -- runs

    def start_run(
        self, run_id: str, day: str, policy: str, policy_revision: str, training_run: str
    ) -> None:
        """Note that a run answers a day, and by which policy; its first start counts."""
        row = {
            "id": run_id,
            "day": day,
            "policy": policy,
            "policy_revision": policy_revision,
            "training_run": training_run,
            "started_at": datetime.now(UTC),
        }
        with self.writing() as connection:
            upsert(connection, tables.runs, row, keep=["started_at"])

    def finish_run(
        self, run_id: str, day: str, *, asked: int, answered: int, failed: int, reused: int
    ) -> None:
        """Note that a run has ended, and how many questions came to what."""
        table = tables.runs
        facts = {"asked": asked, "answered": answered, "failed": failed, "reused": reused}
        mine = sa.and_(table.c.id == run_id, table.c.day == day)
        with self.writing() as connection:
            values = facts | {"finished_at": datetime.now(UTC)}
            connection.execute(sa.update(table).where(mine).values(values))
