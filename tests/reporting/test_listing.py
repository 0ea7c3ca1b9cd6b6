"""Listing answers by id, day and status, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from tests.support.reporting_databases import postgresql_server, reporting_url, save
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.model.values import result_table
from text2sql.reporting.tables.store import ReportingStore

__all__ = ["postgresql_server", "reporting_url"]
DAYS = [date(2026, 3, 28), date(2026, 3, 29), date(2026, 3, 30)]
ZONES = {
    "utc": "UTC",
    "tokyo": "Asia/Tokyo",
    "berlin": "Europe/Berlin",
    "la": "America/Los_Angeles",
}


@pytest.fixture
def store(reporting_url):
    with ReportingStore(reporting_url) as store:
        questions = [ReportQuestion(name, "?", "shop", timezone=z) for name, z in ZONES.items()]
        save(store, *questions)
        for question in questions:
            for number, day in enumerate(DAYS):
                at = question.scheduled_at(day)
                status = AnswerStatus.ERROR if number == 2 else AnswerStatus.ANSWERED
                table = result_table(["n"], [(number,)], 1) if number < 2 else None
                store.write_answer(
                    NewAnswer(
                        question, at, status, "SELECT 1" if table else None, table, digest="d"
                    )
                )
        yield store


def test_a_day_has_one_answer_of_each_question_in_every_zone(store):
    """Berlin's second day has 23 hours, and Tokyo's days begin in UTC's day before."""
    for day in DAYS:
        assert sorted(a.question_id for a in store.list_answers(day)) == sorted(ZONES)
    tokyo = [a for a in store.list_answers(DAYS[1]) if a.question_id == "tokyo"]
    assert [a.scheduled_at for a in tokyo] == [datetime(2026, 3, 28, 15, tzinfo=UTC)]
    assert store.list_answers(date(2026, 3, 27)) == []


def test_answers_are_filtered_by_status_and_limited_in_number(store):
    failed = store.list_answers(status=AnswerStatus.ERROR)
    assert {(a.question_id, a.status) for a in failed} == {(q, "error") for q in ZONES}
    assert store.list_answers(DAYS[0], AnswerStatus.ERROR) == []
    assert len(store.list_answers(most=3)) == len(store.list_answers(DAYS[0], most=3)) == 3


def test_an_answer_is_found_by_its_number(store):
    [one, *_] = store.list_answers()
    assert store.answer_by_id(one.id) == one
    with pytest.raises(Text2SqlError, match="No answer 9999"):
        store.answer_by_id(9999)


def test_the_latest_published_answer_is_not_the_failed_one(store):
    found = store.latest_published("utc")
    assert found.scheduled_at == datetime(2026, 3, 29, tzinfo=UTC)
    assert store.latest_published("nobody") is None
