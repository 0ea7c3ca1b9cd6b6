"""Finding answers in the reporting tables: by their number, their day, their status."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer
from text2sql.reporting.model.question import is_time_zone
from text2sql.reporting.tables.schema import answers, questions
from text2sql.reporting.tables.store import ReportingStore

_c = answers.c
_LARGEST = 2**31 - 1
"""The largest number of an answer that PostgreSQL holds."""


def answer_of(store: ReportingStore, number: int) -> StoredAnswer:
    """Return the answer with this number; raises Text2SqlError where there is none."""
    found = store.find(_c.id == number) if 0 < number <= _LARGEST else []
    if not found:
        raise Text2SqlError(
            f"there is no answer {number} in {store.name}; text2sql answers list shows all"
        )
    return found[0]


def verified_sql_of(store: ReportingStore, question_id: str) -> str | None:
    """Return the verified SQL that a question has now, None where it has none or is gone."""
    column = questions.c.verified_sql
    rows = store.read(sa.select(column).where(questions.c.id == question_id))
    found = rows[0][0] if rows else None
    if not isinstance(found, str | None):
        raise Text2SqlError(f"question {question_id!r}: verified_sql is {found!r}, no text")
    return found


def latest_published(store: ReportingStore, question_id: str) -> StoredAnswer | None:
    """Return the latest published answer of a question, or None."""
    found = store.find(
        _c.question_id == question_id, _c.status == AnswerStatus.ANSWERED.value, most=1
    )
    return found[0] if found else None


def find_answers(
    store: ReportingStore,
    day: date | None = None,
    status: AnswerStatus | None = None,
    most: int | None = None,
) -> list[StoredAnswer]:
    """Return answers, the latest first: of one day, of one status, or all.

    A day is that of each question's own time zone; UTC's for a question that was deleted by hand.
    """
    where: list[sa.ColumnElement[bool]] = [] if status is None else [_c.status == status.value]
    if day is None:
        return store.find(*where, most=most)
    if day in (date.min, date.max):
        return []  # some zones' beginning of it is outside of the calendar
    midnight = datetime.combine(day, time(), UTC)  # within a day of it every zone's day begins
    around = (midnight - timedelta(days=1), midnight + timedelta(days=1))
    where.append(_c.scheduled_at.between(*around))
    zones = _time_zones(store)
    found = [a for a in store.find(*where) if _day(a, zones.get(a.question_id, UTC)) == day]
    return found[:most]


def _time_zones(store: ReportingStore) -> dict[str, tzinfo]:
    rows = store.read(sa.select(questions.c.id, questions.c.time_zone))
    return {row.id: _zone(row.time_zone) for row in rows}


def _zone(name: str) -> tzinfo:
    """Return a time zone; UTC for a name edited into nonsense, which the day's run complains of."""
    return ZoneInfo(name) if is_time_zone(name) else UTC


def _day(answer: StoredAnswer, zone: tzinfo) -> date:
    return answer.scheduled_at.astimezone(zone).date()
