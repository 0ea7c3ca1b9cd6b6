"""The reporting tables' answers and runs: storing them, finding them, reading them back."""

from __future__ import annotations

import math
from dataclasses import asdict, astuple
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from text2sql.errors import Text2SqlError
from text2sql.judge.equality import alike
from text2sql.reporting.model.answer import (
    AnswerStatus,
    Change,
    NewAnswer,
    SampledQuery,
    StoredAnswer,
    Verified,
)
from text2sql.reporting.model.diff import Difference, RowChanges, compare_rows
from text2sql.reporting.model.question import is_question_id, is_time_zone
from text2sql.reporting.model.values import Column, decode_row
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.database import Database, naming_row
from text2sql.reporting.tables.location import refuse_own
from text2sql.reporting.tables.migrating import require_current
from text2sql.reporting.tables.writing import upsert, write_answer

_answers = tables.answers
_c = _answers.c
_KINDS: tuple[tuple[type, type | tuple[type, ...]], ...] = (
    (tables.Words, str),
    (sa.Integer, int),
    (sa.Float, (int, float)),
)


class ReportingStore(Database):
    """The reporting tables in one database; every write is one transaction."""

    def __init__(self, url: str):
        """Open the database; raises and upgrades an SQLite file like ``require_current``."""
        super().__init__(url)
        with self.named_errors():
            require_current(self.writer)

    def refuse_database(self, database: Path) -> None:
        """Raise Text2SqlError if ``database``, which the agent would read, is this very file."""
        url = self.engine.url
        own = Path(str(url.database)) if self.engine.dialect.name == "sqlite" else None
        refuse_own(own, database)

    def write_answer(self, answer: NewAnswer) -> StoredAnswer:
        """Store an answer with its rows and sampled queries in one transaction; return it.

        It replaces an answer for the same question and instant, and counts as another attempt;
        but an error never replaces a published answer: it is only recorded there.
        """
        with self.writing() as connection:
            write_answer(connection, answer)
        stored = self.answer(answer.question.id, answer.scheduled_at)
        assert stored is not None
        return stored

    def answer(self, question_id: str, scheduled_at: datetime) -> StoredAnswer | None:
        """Return the answer of a question at an instant, or None."""
        found = self.find(_c.question_id == question_id, _c.scheduled_at == scheduled_at)
        return found[0] if found else None

    def answer_by_id(self, id: int) -> StoredAnswer:
        """Return the answer with this id; raise Text2SqlError if there is none."""
        # PostgreSQL refuses a number that its integer does not hold.
        found = self.find(_c.id == id) if 0 < id < 2**31 else []
        if not found:
            raise Text2SqlError(f"No answer {id} in {self.name}; text2sql answers list shows all.")
        return found[0]

    def find(self, *where: sa.ColumnElement[bool], most: int | None = None) -> list[StoredAnswer]:
        """Return the answers that meet conditions on the table ``answers``, the latest first."""
        query = sa.select(_answers).where(*where).order_by(_c.scheduled_at.desc(), _c.question_id)
        try:
            return [_stored_answer(row) for row in self.read(query.limit(most))]
        except (ValueError, TypeError) as error:
            about = self.read(sa.select(_c.id, _c.question_id).where(*where))
            which = ", ".join(f"{row.id} ({row.question_id})" for row in about[:5])
            subject = f"answer {which}" if len(about) == 1 else f"one of the answers {which}"
            raise Text2SqlError(f"{subject} is invalid: {error}") from error

    def list_answers(
        self, day: date | None = None, status: AnswerStatus | None = None, most: int | None = None
    ) -> list[StoredAnswer]:
        """Return answers, the latest first; a day is that of each question's own time zone."""
        where: list[sa.ColumnElement[bool]] = [] if status is None else [_c.status == status.value]
        if day is None:
            return self.find(*where, most=most)
        if day in (date.min, date.max):
            return []  # in some time zones it begins outside the calendar
        # Every zone's day begins within 24 hours of UTC's.
        midnight = datetime.combine(day, time(), UTC)
        around = (midnight - timedelta(days=1), midnight + timedelta(days=1))
        where.append(_c.scheduled_at.between(*around))
        columns = tables.questions.c
        rows = self.read(sa.select(columns.id, columns.time_zone))
        # An invalid zone, edited by hand, is reported when the day is answered.
        zones = {row.id: ZoneInfo(row.time_zone) for row in rows if is_time_zone(row.time_zone)}
        found = [
            answer
            for answer in self.find(*where)
            if answer.scheduled_at.astimezone(zones.get(answer.question_id, UTC)).date() == day
        ]
        return found[:most]

    def history(self, question_id: str, most: int | None = None) -> list[StoredAnswer]:
        """Return the answers of a question, the latest first."""
        return self.find(_c.question_id == question_id, most=most)

    def latest_published(
        self, question_id: str, before: datetime | None = None
    ) -> StoredAnswer | None:
        """Return the latest published answer of a question, of all or before an instant."""
        where = [_c.question_id == question_id, _c.status == AnswerStatus.ANSWERED.value]
        where += [_c.scheduled_at < before] if before else []
        found = self.find(*where, most=1)
        return found[0] if found else None

    def verified_sql(self, question_id: str) -> str | None:
        """Return the verified SQL that a question has now, None if it has none or was deleted."""
        column = tables.questions.c.verified_sql
        rows = self.read(sa.select(column).where(tables.questions.c.id == question_id))
        found = rows[0][0] if rows else None
        if not isinstance(found, str | None):
            raise Text2SqlError(f"Question {question_id!r}: verified_sql must be text: {found!r}.")
        return found

    def rows(self, answer: StoredAnswer, most: int | None = None) -> list[dict[str, Any]]:
        """Return the rows of an answer, or the first ``most``, as the query returned them."""
        table = tables.answer_rows
        query = sa.select(table.c.cells, table.c.marks).where(table.c.answer_id == answer.id)
        query = query.order_by(table.c.position).limit(most)
        with naming_row(f"a row of answer {answer.id} ({answer.question_id})"):
            return [_result_row(row.cells, row.marks, answer) for row in self.read(query)]

    def sampled_queries(self, answer: StoredAnswer) -> list[SampledQuery]:
        """Return the sampled queries that voted on an answer, in the order of sampling."""
        table = tables.candidates
        query = sa.select(table).where(table.c.answer_id == answer.id).order_by(table.c.position)
        with naming_row(f"a candidate of answer {answer.id} ({answer.question_id})"):
            return [_sampled_query(row) for row in self.read(query)]

    def difference(self, answer: StoredAnswer) -> Difference | None:
        """Compare a published answer with the published one before; None if either is missing."""
        before = self.latest_published(answer.question_id, answer.scheduled_at)
        if before is None or answer.status != AnswerStatus.ANSWERED:
            return None
        if unchanged := alike(answer.digest, before.digest, "multiset"):
            rows = RowChanges(unchanged=answer.rows_kept or 0)
        else:
            rows = compare_rows(self.rows(before), self.rows(answer))
        return Difference(
            previous_at=before.scheduled_at,
            rows=rows,
            sql_changed=answer.sql != before.sql,
            result_changed=not unchanged,
            data_changed=answer.database_fingerprint != before.database_fingerprint,
            complete=all(one.row_count == one.rows_kept for one in (answer, before)),
            renamed=[c.label for c in answer.columns] != [c.label for c in before.columns],
        )

    def start_run(
        self, run_id: str, day: str, policy: str, policy_revision: str, training_run: str
    ) -> None:
        """Record that a run answers a day with a policy; the first start counts."""
        row: dict[str, Any] = {"id": run_id, "day": day, "training_run": training_run}
        row |= {"policy": policy, "policy_revision": policy_revision}
        row["started_at"] = datetime.now(UTC)
        with self.writing() as connection:
            upsert(connection, tables.runs, row, ["id", "day"], ["started_at"])

    def finish_run(self, run_id: str, day: str, **counts: int) -> None:
        """Record that a run has ended, with the numbers ``asked``, ``answered`` and so on."""
        runs = tables.runs
        update = sa.update(runs).where(runs.c.id == run_id, runs.c.day == day)
        with self.writing() as connection:
            connection.execute(update.values(counts | {"finished_at": datetime.now(UTC)}))


def _stored_answer(row: sa.Row[Any]) -> StoredAnswer:
    values = _values(row, tables.answers)
    values["status"] = AnswerStatus(values["status"])
    values["change"] = Change(values["change"]) if values["change"] else None
    values["verified"] = Verified(values["verified"]) if values["verified"] else None
    values["columns"] = tuple(Column(**column) for column in values["columns"] or ())
    for column in values["columns"]:
        if not all(isinstance(text, str) for text in astuple(column)):
            raise ValueError(f"a column is {asdict(column)!r}")
    if not is_question_id(values["question_id"]):  # it names files
        raise ValueError(f"question_id is {values['question_id']!r}")
    return StoredAnswer(**values)


def _sampled_query(row: sa.Row[Any]) -> SampledQuery:
    values = _values(row, tables.candidates)
    del values["answer_id"], values["position"]
    # A null in the table is the field's default: an empty text, or 0.
    given = {name: v for name, v in values.items() if v is not None or name == "sql"}
    return SampledQuery(**given)


def _result_row(cells: Any, marks: Any, answer: StoredAnswer) -> dict[str, Any]:
    if not isinstance(cells, dict) or not isinstance(marks, dict | None):
        raise ValueError("cells and marks must be JSON objects")
    if lacking := [column.name for column in answer.columns if column.name not in cells]:
        raise ValueError(f"cells has no {', '.join(lacking)}")
    for name, cell in cells.items():
        if isinstance(cell, bool | list | dict):
            raise ValueError(f"the cell {name} must be text, a number or null")
    return decode_row(cells, marks)


def _values(row: sa.Row[Any], table: sa.Table) -> dict[str, Any]:
    """Return a row's values; raise ValueError for a wrong type, which SQLite would store."""
    values = dict(row._mapping)
    for column in table.columns:
        kind = next((kind for type_, kind in _KINDS if isinstance(column.type, type_)), object)
        value = values[column.name]
        infinite = isinstance(value, float) and not math.isfinite(value)
        if infinite or (value is not None and not isinstance(value, kind)):
            raise ValueError(f"{column.name} is {value!r}")
    return values
