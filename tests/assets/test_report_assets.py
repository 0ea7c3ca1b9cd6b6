"""The assets of the reports in real Dagster runs, answered by a real HTTP server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from assets.reporting.questions import report_questions
from resources.delivery import SMTP_VARIABLE, WEBHOOK_VARIABLE
from resources.reporting import ReportingDatabase
from tests.assets.report_place import COUNT, DAY, FINE, checks, place
from tests.support.reporting_databases import postgresql_server, upgrade_tables
from tests.support.scripted_server import ScriptedServer, fails, replay, submits
from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.location import URL_VARIABLE

__all__ = ["place", "postgresql_server"]


def said(result, check: str) -> str:
    [found] = [c for c in result.get_asset_check_evaluations() if c.check_name == check]
    return found.description


def metadata(result, asset: str) -> dict:
    [event] = result.asset_materializations_for_node(asset)
    return {name: getattr(v, "value", None) for name, v in event.metadata.items()}


def test_questions_are_answered_into_tables_and_a_page(place):
    place.ask(shops=COUNT, ids="SELECT id FROM shop ORDER BY id")
    assert checks(place.load()) == {"databases_found": True}
    result = place.answer()
    assert checks(result) == FINE
    assert metadata(result, "report_answers")["answered"] == 2
    assert place.query("SELECT shops, answer_share FROM answer_shops") == [(2, 1.0)]
    assert place.query("SELECT id FROM answer_ids") == [(1,), (2,)]
    rows = place.query("SELECT question_id, status, change, training_run FROM latest_answers")
    assert sorted(rows) == [
        ("ids", "answered", "first", "demo"),
        ("shops", "answered", "first", "demo"),
    ]
    assert place.query("SELECT dagster_run_id FROM answers") == [(result.run_id,)] * 2
    assert place.query("SELECT id, day, asked, answered, failed, reused FROM runs") == [
        (result.run_id, DAY, 2, 2, 0, 0)
    ]
    page = (place.root / "reports" / f"{DAY}.html").read_text()
    assert "2 of 2 questions answered" in page


def test_answers_go_to_the_database_that_the_environment_names(
    place, monkeypatch, postgresql_server
):
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv(URL_VARIABLE, postgresql_server)
    upgrade_tables(postgresql_server)
    place.ask(shops=COUNT)
    place.load()
    place.answer()
    assert not (place.root / "reporting.sqlite").exists()
    with psycopg.connect(postgresql_server) as connection:
        [row] = connection.execute("SELECT shops, answer_scheduled_at FROM answer_shops")
    assert row == (2, datetime(2026, 3, 2, tzinfo=UTC))


def test_a_report_is_sent_once_and_a_failure_to_send_it_is_a_warning(place, monkeypatch):
    place.ask(shops=COUNT)
    place.load()
    with ScriptedServer([fails(500), replay({})]) as chat:
        monkeypatch.setenv(WEBHOOK_VARIABLE, chat.url)
        failed, sent, again = (place.answer() for _ in range(3))
    assert failed.success
    assert checks(failed)["delivered"] is False
    words = [said(result, "delivered") for result in (failed, sent, again)]
    assert "answered with status 500" in words[0]
    assert words[1:] == ["webhook: sent", "webhook: sent before"]
    assert len(chat.requests) == 2
    assert "1 of 1 question answered" in chat.requests[0]["text"]
    assert place.query("SELECT status, attempts FROM answers") == [("answered", 1)]


def test_a_backfill_sends_nothing(place, monkeypatch):
    place.ask(shops=COUNT)
    place.load()
    with ScriptedServer([replay({})]) as chat:
        monkeypatch.setenv(WEBHOOK_VARIABLE, chat.url)
        result = place.answer(tags={"dagster/backfill": "b1"})
        assert not chat.requests
    assert "belongs to a backfill" in said(result, "delivered")


def test_a_failed_day_is_sent_too(place, monkeypatch):
    place.ask(shops=fails(400, "quota"))
    place.load()
    with ScriptedServer([replay({})]) as chat:
        monkeypatch.setenv(WEBHOOK_VARIABLE, chat.url)
        assert not place.answer(raises=False).success
    assert "quota" in chat.requests[0]["text"]


def test_invalid_delivery_settings_lose_no_answer(place, monkeypatch):
    place.ask(shops=COUNT)
    place.load()
    monkeypatch.setenv(SMTP_VARIABLE, "mail.example.org")
    result = place.answer()
    assert "the mail server must be smtp://" in said(result, "delivered")
    assert place.query("SELECT status FROM answers") == [("answered",)]


def test_an_answer_that_differs_from_verified_sql_fails_a_check(place):
    place.ask(shops=COUNT, ids="SELECT id FROM shop")
    rows = yaml.safe_load(place.file.read_text())
    place.write([rows[0] | {"verified_sql": "SELECT 7"}, rows[1]])
    place.load()
    result = place.answer()
    assert checks(result)["verified_hold"] is False
    assert "shops" in said(result, "verified_hold")
    assert place.query("SELECT question_id FROM answers WHERE status = 'refuted'") == [("shops",)]


def test_the_same_tick_twice_asks_once(place):
    place.ask(shops=COUNT)
    place.load()
    place.answer()
    asked = len(place.server.requests)
    result = place.answer()
    assert len(place.server.requests) == asked
    assert metadata(result, "report_answers")["reused"] == 1
    assert place.query("SELECT count(*), max(attempts) FROM answers") == [(1, 1)]
    place.answer(force=True)
    assert len(place.server.requests) == 2 * asked
    assert place.query("SELECT count(*), max(attempts) FROM answers") == [(1, 2)]


def test_a_failing_question_is_reported_and_asked_again_alone(place):
    place.ask(a=COUNT, b=COUNT, c=fails(400, "no such luck"), d=COUNT, e=COUNT)
    place.load()
    result = place.answer()
    assert result.success
    assert checks(result) == FINE | {"questions_answered": False}
    [failed] = place.query("SELECT question_id, error FROM answers WHERE status = 'error'")
    assert failed[0] == "c"
    assert "no such luck" in failed[1]
    asked = len(place.server.requests)
    place.replies["c"] = submits(COUNT)
    result = place.answer()
    assert checks(result) == FINE
    assert len(place.server.requests) == asked + 8
    attempts = place.query("SELECT attempts FROM answers ORDER BY question_id")
    assert attempts == [(1,), (1,), (2,), (1,), (1,)]


def test_a_question_on_a_missing_database_is_named(place):
    place.ask(shops=COUNT)
    known = {"id": "shops", "question": "ask shops", "database": "shop"}
    place.write([known, {"id": "lost", "question": "?", "database": "nowhere"}])
    result = place.load()
    assert checks(result) == {"databases_found": False}
    [evaluation] = result.get_asset_check_evaluations()
    assert "the database of every question exists (1 row)" in evaluation.description
    place.answer()
    rows = place.query("SELECT question_id, status FROM answers ORDER BY question_id")
    assert rows == [("lost", "error"), ("shops", "answered")]


def test_a_day_on_which_everything_fails_fails_the_run(place):
    place.ask(shops=fails(400, "quota"))
    place.load()
    with pytest.raises(Text2SqlError, match=r"None of 1 question could be.*quota"):
        place.answer()
    assert place.query("SELECT status, attempts FROM answers") == [("error", 1)]
    place.replies["shops"] = submits(COUNT)
    place.answer()
    assert place.query("SELECT status, attempts FROM answers") == [("answered", 2)]


def test_without_champion_questions_or_the_promoted_weights_nothing_is_asked(place):
    with pytest.raises(Text2SqlError, match="materialize report_questions first"):
        place.answer()
    with pytest.raises(Text2SqlError, match="This run has no day"):
        place.answer(day=None)
    place.ask(shops=COUNT)
    place.load()
    place.promote("0123456789abcdef")
    with pytest.raises(Text2SqlError, match="not those that were promoted"):
        place.answer()
    (place.root / "champion.json").unlink()
    with pytest.raises(Text2SqlError, match="run the lifecycle job first"):
        place.answer()
    assert not place.server.requests
    assert place.query("SELECT count(*) FROM answers") == [(0,)]


def test_a_malformed_list_stops_with_its_line_and_keeps_the_questions(place):
    place.ask(shops=COUNT)
    place.load()
    place.write([{"id": "other", "question": "?", "database": "shop", "votes": "many"}])
    with pytest.raises(Text2SqlError, match=r"questions\.yaml:.*votes must be a whole number"):
        place.load()
    assert place.query("SELECT id FROM questions") == [("shops",)]


def test_days_are_answered_apart_and_compared(place):
    place.ask(shops=COUNT)
    place.load()
    place.answer("2026-03-03")
    place.answer("2026-03-02")
    rows = place.query("SELECT scheduled_at, change FROM answers ORDER BY scheduled_at")
    assert [row[0][:10] for row in rows] == ["2026-03-02", "2026-03-03"]
    assert [row[1] for row in rows] == ["first", "same"]


def test_the_reporting_url_comes_from_config_environment_or_root(tmp_path, monkeypatch):
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    assert ReportingDatabase().url_below(tmp_path) == f"sqlite:///{tmp_path}/reporting.sqlite"
    monkeypatch.setenv(URL_VARIABLE, "postgresql://h/d")
    assert ReportingDatabase().url_below(tmp_path) == "postgresql://h/d"
    assert ReportingDatabase(url="sqlite:///x").url_below(tmp_path) == "sqlite:///x"


def test_reports_are_below_the_root_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    root = tmp_path / "what? 100%41"
    with ReportingDatabase().open(root) as store:
        assert store.list_answers() == []
    assert [file.name for file in tmp_path.iterdir()] == ["what? 100%41"]
    assert (root / "reporting.sqlite").is_file()


def test_the_shipped_questions_bring_their_own_database(place):
    result = place.run(report_questions)
    assert checks(result) == {"databases_found": True}
    databases = {Path(name) for (name,) in place.query("SELECT database FROM questions")}
    assert databases == {place.root / "report_databases" / "store_chain" / "store_chain.sqlite"}
    assert all(database.is_file() for database in databases)
    assert len(place.query("SELECT id FROM questions")) >= 3
    place.change("DELETE FROM questions WHERE id <> 'revenue'")
    place.run(report_questions)  # they follow the shipped file from then on
    assert len(place.query("SELECT id FROM questions")) >= 3


def test_a_shipped_question_that_another_file_took_is_left_to_it(place):
    place.run(report_questions)
    place.ask(revenue=COUNT)
    place.load()
    asked = "SELECT question FROM questions WHERE id = 'revenue'"
    assert place.query(asked) == [("ask revenue",)]
    others = place.query("SELECT COUNT(*) FROM questions")
    place.run(report_questions)  # as every day does
    assert place.query(asked) == [("ask revenue",)]
    assert place.query("SELECT COUNT(*) FROM questions") == others


@pytest.mark.parametrize("by_hand", [True, False])
def test_the_shipped_questions_are_not_mixed_with_your_own(place, by_hand):
    place.ask(shops=COUNT)
    place.load()
    if by_hand:
        place.change("UPDATE questions SET seed = NULL, seed_file = NULL")
    result = place.run(report_questions)
    assert checks(result) == {"databases_found": True}
    assert metadata(result, "report_questions")["file"] == "none: the tables' own questions"
    assert place.query("SELECT id FROM questions") == [("shops",)]
    assert not (place.root / "report_databases").exists()
    (place.databases / "shop.sqlite").unlink()
    assert checks(place.run(report_questions)) == {"databases_found": False}


def test_a_day_that_takes_too_long_stops_and_keeps_its_answers(place):
    place.ask(one="SELECT count(*) FROM shop")
    place.load()
    with pytest.raises(Text2SqlError, match=r"more than 1e-07 hours .* set most_hours"):
        place.answer(most_hours=1e-7)
    place.answer()
    assert place.query("SELECT status FROM answers") == [("answered",)]
