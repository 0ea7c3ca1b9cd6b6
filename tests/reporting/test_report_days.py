"""Which questions a day asks, and what stops a day, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.assets.report_place import COUNT, FINE, checks, place
from tests.support.reporting_databases import postgresql_server, reporting_url
from tests.support.scripted_server import fails, submits
from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.database import Database
from text2sql.reporting.tables.location import URL_VARIABLE

__all__ = ["place", "postgresql_server", "reporting_url"]
MONDAY, TUESDAY = "2026-03-02", "2026-03-03"


class Days:
    """A place whose reports are in one of the two kinds of databases."""

    def __init__(self, place, url: str) -> None:
        self.place = place
        self.url = url

    def ask(self, **groups: str) -> None:
        """Write and load a file with a question in each group."""
        self.place.replies = dict.fromkeys(groups, submits(COUNT))
        self.place.write(
            [
                {"id": id, "question": f"ask {id}", "database": "shop", "group": group}
                for id, group in groups.items()
            ]
        )
        self.place.load()

    def query(self, sql: str) -> list[tuple]:
        with Database(self.url) as database:
            return [tuple(row) for row in database.read(sa.text(sql))]

    def change(self, sql: str) -> None:
        with Database(self.url) as database, database.writing() as connection:
            connection.exec_driver_sql(sql)

    def answered(self) -> list[tuple]:
        found = self.query("SELECT question_id, status FROM answers ORDER BY scheduled_at, 1")
        return [id if status == "answered" else f"{id}: {status}" for id, status in found]


@pytest.fixture
def week(place, monkeypatch, reporting_url):
    monkeypatch.setenv(URL_VARIABLE, reporting_url)
    return Days(place, reporting_url)


def test_a_group_is_answered_on_its_days_and_when_it_is_named(week):
    week.ask(d="daily", w="weekly", m="monthly", own="finance")
    week.place.answer(TUESDAY)
    assert week.answered() == ["d", "own"]
    week.place.answer(MONDAY)
    assert week.answered() == ["d", "own", "w", "d", "own"]
    week.place.answer(TUESDAY, group="monthly")
    assert week.answered() == ["d", "own", "w", "d", "m", "own"]
    with pytest.raises(Text2SqlError, match="No questions are enabled in the group 'wekly'"):
        week.place.answer(TUESDAY, group="wekly")


def test_a_day_with_nothing_due_succeeds(week):
    week.ask(w="weekly")
    result = week.place.answer(TUESDAY)
    assert checks(result) == FINE
    assert week.answered() == []


def test_an_invalid_question_is_named_and_skipped(week):
    week.ask(a="daily", b="daily", c="daily")
    week.change("UPDATE questions SET votes = -3 WHERE id = 'b'")
    week.change("UPDATE questions SET time_zone = 'Mars/Phobos' WHERE id = 'c'")
    result = week.place.answer(MONDAY)
    assert checks(result) == FINE | {"questions_answered": False}
    [said] = [
        one.description
        for one in result.get_asset_check_evaluations()
        if one.check_name == "questions_answered"
    ]
    assert "no question ends in an error (2 rows)" in said
    assert week.answered() == ["a"]
    assert week.query("SELECT votes FROM questions WHERE id = 'b'") == [(-3,)]
    week.place.load()  # the file does not undo what it cannot read
    assert week.query("SELECT votes FROM questions WHERE id = 'b'") == [(-3,)]


def test_an_invalid_answer_is_named_and_the_others_are_answered(week):
    week.ask(a="daily", b="daily")
    week.place.answer(MONDAY)
    week.change("UPDATE answers SET status = 'fine' WHERE question_id = 'a'")
    week.change("DELETE FROM answer_rows WHERE answer_id IN"
                " (SELECT id FROM answers WHERE question_id = 'b')")  # fmt: skip
    week.change("UPDATE answers SET status = 'error' WHERE question_id = 'b'")
    with pytest.raises(Text2SqlError, match=r"answer \d+ \(a\) is invalid: 'fine'"):
        week.place.answer(MONDAY)
    assert week.query("SELECT status FROM answers ORDER BY question_id") == [
        ("fine",),
        ("answered",),
    ]
    assert week.query("SELECT shops FROM answer_b") == [(2,)]


def test_a_column_of_another_name_is_named(week):
    week.ask(a="daily")
    week.change("ALTER TABLE answers RENAME COLUMN share TO portion")
    with pytest.raises(Text2SqlError, match=r"reporting database .*share"):
        week.place.answer(MONDAY)


def test_an_answer_that_changes_without_new_data_is_reported(week):
    week.ask(a="daily")
    week.place.answer(MONDAY)
    week.place.replies["a"] = submits("SELECT id AS shops FROM shop WHERE id = 1")
    result = week.place.answer(TUESDAY)
    assert checks(result) == FINE | {"answers_steady": False}
    week.place.replies["a"] = fails(400, "no")
    with pytest.raises(Text2SqlError):
        week.place.answer("2026-03-04")
    assert week.query("SELECT shops FROM answer_a") == [(1,)]


@pytest.mark.parametrize("reporting_url", ["sqlite"], indirect=True)
def test_the_agent_may_not_read_the_reports_under_another_name_either(week):
    week.ask(a="daily", b="daily")
    twin = week.place.root / "twin.sqlite"
    twin.hardlink_to(week.url.removeprefix("sqlite:///"))
    week.change(f"UPDATE questions SET database = '{twin}' WHERE id = 'a'")
    week.place.answer(MONDAY)
    assert week.answered() == ["a: error", "b"]
    [(error,)] = week.query("SELECT error FROM answers WHERE question_id = 'a'")
    assert "may not read" in error
