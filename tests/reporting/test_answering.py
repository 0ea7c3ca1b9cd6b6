"""Answering a day's questions against a real HTTP server, sandbox and reporting database."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from datetime import date

import psycopg
import pytest

from tests.reporting.answering_place import COUNT, NEXT, box, place
from tests.support.reporting_databases import own_postgresql, save, upgrade_tables
from tests.support.scripted_server import calls, fails, says, submits
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.delivery.entries import read_entries
from text2sql.reporting.delivery.page import render_page
from text2sql.reporting.model.answer import AnswerStatus, Change, Verified
from text2sql.reporting.model.question import Expectations, database_fingerprint
from text2sql.reporting.tables.store import ReportingStore

__all__ = ["box", "own_postgresql", "place"]


def test_an_answer_names_all_that_it_came_from(place):
    question = place.question("q", COUNT, "SELECT count(id) FROM shop", COUNT, "SELECT 7")
    [stored] = place.answer(question)
    assert stored.status == AnswerStatus.ANSWERED
    assert (stored.share, stored.votes, stored.candidates) == (0.75, 3, 4)
    assert stored.sql in (COUNT, "SELECT count(id) FROM shop")
    assert list(place.store.rows(stored)[0].values()) == [3]
    assert stored.change == Change.FIRST
    assert stored.database_fingerprint == database_fingerprint(place.database)
    assert (stored.policy, stored.training_run, stored.dagster_run_id) == ("scripted", "t1", "d1")
    assert stored.policy_revision
    assert stored.code_version == "c1"
    assert stored.prompt_revision
    assert stored.sampling == {"temperature": 1.0, "top_p": 1.0, "max_tokens": 2048}
    assert (stored.prompt_tokens, stored.completion_tokens) == (40, 80)
    chosen = [candidate.chosen for candidate in place.store.sampled_queries(stored)]
    assert sorted(chosen) == [False, True, True, True]


def test_a_published_answer_is_not_asked_again_unless_forced(place):
    question = place.question("q", COUNT)
    place.answer(question)
    [again] = place.answer(question)
    assert place.reused == [True]
    assert (again.attempts, place.replies.asked["ask q"]) == (1, 4)
    [forced] = place.answer(question, force=True)
    assert place.reused == [False]
    assert (forced.attempts, place.replies.asked["ask q"]) == (2, 8)


@pytest.mark.parametrize(
    ("edited", "status"),
    [
        ({"question": "ask it otherwise"}, "answered"),
        ({"evidence": "all of them"}, "answered"),
        ({"verified_sql": COUNT}, "answered"),
        ({"verified_sql": "SELECT 4"}, "refuted"),
        ({"expectations": Expectations(least_rows=2)}, "refuted"),
        ({"minimum_share": 0.9}, "low_agreement"),
    ],
)
def test_a_question_that_was_edited_since_is_asked_again(place, edited, status):
    submitted = (COUNT, COUNT, COUNT, "SELECT 4")
    place.answer(place.question("q", *submitted, minimum_share=0.5))
    again = place.question("q", *submitted, **{"minimum_share": 0.5} | edited)
    [answer] = place.answer(again)
    assert (place.reused, answer.status, answer.attempts) == ([False], status, 2)
    if status == "answered":
        place.answer(again)
        assert place.reused == [True]


def test_one_failing_question_does_not_stop_the_others(place):
    """The third of five meets a broken server; a second run asks for that one only."""
    questions = [place.question(f"q{i}", COUNT) for i in range(5)]
    place.replies.steps["ask q2"] = [fails(500, "out of memory")]
    answers = place.answer(*questions)
    assert [a.status for a in answers] == ["answered"] * 2 + ["error"] + ["answered"] * 2
    assert "out of memory" in answers[2].error
    assert {c.status for c in place.store.sampled_queries(answers[2])} == {"infrastructure"}
    asked = dict(place.replies.asked)
    place.replies.steps["ask q2"] = [submits(COUNT)]
    answers = place.answer(*questions)
    assert [a.status for a in answers] == ["answered"] * 5
    assert [a.attempts for a in answers] == [1, 1, 2, 1, 1]
    assert {k: v - asked[k] for k, v in place.replies.asked.items() if v > asked[k]} == {
        "ask q2": 4
    }


def test_candidates_that_the_server_lost_are_drawn_once_more(place):
    question = place.question("q", submits(COUNT), fails(500), submits(COUNT), submits(COUNT))
    [stored] = place.answer(question)
    assert (stored.status, stored.share) == (AnswerStatus.ANSWERED, 1.0)
    assert place.replies.asked["ask q"] == 5


def test_low_agreement_publishes_nothing(place):
    question = place.question("q", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4")
    [stored] = place.answer(question)
    assert (stored.status, stored.share, stored.sql) == (AnswerStatus.LOW_AGREEMENT, 0.25, None)
    assert place.store.rows(stored) == []
    assert len(place.store.sampled_queries(stored)) == 4


def test_a_vote_that_fails_again_and_again_is_given_up(place):
    question = place.question("q", *[f"SELECT {n}" for n in range(24)])
    for attempts in (1, 2, 3, 3):
        [stored] = place.answer(question)
        assert (stored.status, stored.attempts) == (AnswerStatus.LOW_AGREEMENT, attempts)
    assert place.reused == [True]
    [forced] = place.answer(question, force=True)
    assert forced.attempts == 4
    [edited] = place.answer(replace(question, minimum_share=0.25))
    assert edited.status == AnswerStatus.ANSWERED


def test_the_minimum_share_itself_is_enough(place):
    question = place.question("q", "SELECT 1", "SELECT 1", "SELECT 1", "SELECT 4", "SELECT 5",
                              votes=5, minimum_share=0.6)  # fmt: skip
    [stored] = place.answer(question)
    assert (stored.status, stored.share) == (AnswerStatus.ANSWERED, 0.6)


def test_without_consensus_nothing_is_published_and_the_reason_is_stored(place):
    empty = "SELECT id FROM shop WHERE id > 9"
    question = place.question(
        "q", submits("SELECT owner FROM shop"), submits("DROP TABLE shop"), submits(empty),
        calls(("run_sql", {"sql": "DELETE FROM shop"}), ("submit", {"sql": COUNT})),
    )  # fmt: skip
    [stored] = place.answer(question)
    assert (stored.status, stored.sql, stored.share) == (AnswerStatus.NO_CONSENSUS, None, 0.0)
    for words in ("1 error", "2 write", "1 empty"):
        assert words in stored.error
    # The candidates are drawn side by side: either may be the first that has an error to tell.
    assert "no such column: owner" in stored.error or "DROP would change" in stored.error
    assert sqlite3.connect(place.database).execute(COUNT).fetchone() == (3,)


def test_candidates_that_all_return_no_rows_are_said_to_and_have_no_share(place):
    none = "SELECT id FROM shop WHERE id > 9"
    [stored] = place.answer(place.question("q", none))
    assert (stored.status, stored.error) == (
        AnswerStatus.NO_CONSENSUS, "all 4 candidates returned no rows",
    )  # fmt: skip
    page = render_page("2026-03-02", read_entries(place.store, [stored]))
    assert "Not answered: all 4 candidates returned no rows" in page
    assert "% agree" not in page and "candidates agree" not in page


def test_a_policy_that_never_submits_gives_no_consensus(place):
    [stored] = place.answer(place.question("q", says("I do not know")))
    assert stored.status == AnswerStatus.NO_CONSENSUS
    assert "4 no_action" in stored.error


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "There is no database"), (b"", "empty"), (b"nonsense", "not a SQLite database")],
)
def test_an_unusable_database_is_named_and_nothing_is_asked(place, content, words):
    path = place.folder / "other.sqlite"
    if content is not None:
        path.write_bytes(content)
    [stored] = place.answer(place.question("q", COUNT, database=str(path)))
    assert stored.status == AnswerStatus.ERROR
    assert "other.sqlite" in stored.error
    assert words in stored.error
    assert not place.replies.asked


def test_the_reporting_database_is_not_read(place):
    own = str(place.folder / "reporting.sqlite")
    [stored] = place.answer(place.question("q", "SELECT * FROM answers", database=own))
    assert stored.status == AnswerStatus.ERROR
    assert "may not read" in stored.error
    assert not place.replies.asked


def test_changed_data_and_changed_sql_are_distinguished(place):
    question = place.question("q", COUNT)
    place.answer(question)
    place.change("INSERT INTO shop VALUES (4, 'Rome')")
    [changed] = place.answer(question, day=NEXT)
    assert changed.change == Change.DATA_CHANGED
    assert place.store.difference(changed).rows.changed == (({"shops": 3}, {"shops": 4}),)
    place.replies.steps["ask q"] = [submits("SELECT COUNT(*) AS shops FROM shop AS s")]
    [same] = place.answer(question, day=date(2026, 3, 4))
    assert same.change == Change.SQL_CHANGED


def test_text_that_is_not_utf8_is_answered_with_replacement(place):
    """As people have it in databases that were filled from Latin-1; the judge refuses it."""
    place.change("UPDATE shop SET city = CAST(x'5afc72696368' AS TEXT) WHERE id = 1")
    [stored] = place.answer(place.question("q", *["SELECT city FROM shop WHERE id = 1"] * 4))
    assert (stored.status, stored.share) == (AnswerStatus.ANSWERED, 1.0)
    assert place.store.rows(stored) == [{"city": "Z\ufffdrich"}]


def test_a_large_result_is_capped_and_counted(place):
    numbers = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)"
        " SELECT i, i AS I, x'616263', 9e999 FROM n"
    )
    [stored] = place.answer(place.question("q", numbers))
    assert (stored.row_count, stored.rows_kept) == (25_000, 10_000)
    rows = place.store.rows(stored)
    assert list(rows[-1].values()) == [10_000, 10_000, b"abc", float("inf")]


def test_an_interrupted_question_only_samples_the_missing_queries(place):
    question = place.question("q", COUNT)
    place.answer(question)
    [transcript] = (place.folder / "transcripts").iterdir()
    lines = transcript.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    # As after kill -9: three rollouts and a torn line, and no answer stored.
    transcript.write_text("".join(lines[:3]) + lines[3][:50])
    (place.folder / "reporting.sqlite").unlink()
    place.store.close()
    place.store = ReportingStore(f"sqlite:///{place.folder / 'reporting.sqlite'}")
    save(place.store, question)
    [stored] = place.answer(question)
    assert (stored.status, place.replies.asked["ask q"]) == (AnswerStatus.ANSWERED, 5)


# -- what a person knows of the answer


def test_an_answer_equal_to_the_verified_sqls_is_published_as_verified(place):
    verified = "SELECT max(id) FROM shop -- another way to 3"
    [stored] = place.answer(place.question("q", COUNT, verified_sql=verified))
    assert (stored.status, stored.verified) == (AnswerStatus.ANSWERED, Verified.MATCH)
    assert stored.verified_sql == verified
    page = render_page("2026-03-02", read_entries(place.store, [stored]))
    assert "100% agree. Equals the verified SQL&#39;s result. First answer." in page


OWNERS_TRIGGER = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT question_id FROM answers WHERE id = NEW.answer_id) = 'watched'
  THEN RAISE EXCEPTION 'the owner says no'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON answer_rows FOR EACH ROW EXECUTE FUNCTION refuse();
"""
"""The database's owner refuses rows of an answer that is written already."""


def test_an_answer_that_the_database_cannot_hold_is_named_and_the_others_are_answered(
    place, own_postgresql
):
    upgrade_tables(own_postgresql.url)
    place.store.close()
    place.store = ReportingStore(own_postgresql.url)
    with psycopg.connect(own_postgresql.url) as connection:
        connection.execute("ALTER TABLE answers ALTER COLUMN evidence TYPE varchar(4)")
        connection.execute("ALTER TABLE answers ADD CHECK (question_id <> 'banned')")
        connection.execute(OWNERS_TRIGGER)
    long = replace(place.question("long", COUNT), evidence="words")
    refused = [place.question(name, COUNT) for name in ("banned", "watched")]
    with pytest.raises(Text2SqlError, match=r"question 'long': .*value too long") as caught:
        place.answer(long, *refused, place.question("fine", COUNT))
    assert not isinstance(caught.value, InfrastructureError)
    for words in ("violates check constraint", "'watched': .*the owner says no"):
        assert re.search(words, str(caught.value))
    assert place.store.history("fine")[0].status == AnswerStatus.ANSWERED
    assert [place.store.history(id) for id in ("long", "banned", "watched")] == [[], [], []]


def test_an_answer_that_differs_from_the_verified_sql_is_not_published(place):
    [stored] = place.answer(place.question("q", COUNT, verified_sql="SELECT 4"))
    assert (stored.status, stored.verified) == (AnswerStatus.REFUTED, Verified.DIFFERS)
    assert "differs from the verified SQL's result" in stored.error
    assert (stored.sql, place.store.rows(stored)) == (None, [])
    assert len(place.store.sampled_queries(stored)) == 4


@pytest.mark.parametrize("sql", ["SELECT owner FROM shop", "DELETE FROM shop"])
def test_verified_sql_that_fails_refutes_nothing_and_is_reported(place, sql):
    [stored] = place.answer(place.question("q", COUNT, verified_sql=sql))
    assert (stored.status, stored.verified) == (AnswerStatus.ANSWERED, Verified.ERROR)
    [entry] = read_entries(place.store, [stored])
    assert entry.concerns == ["The verified SQL did not run, so nothing was compared with it."]
    assert sqlite3.connect(place.database).execute(COUNT).fetchone() == (3,)


def test_verified_sql_is_compared_below_the_minimum_share_too(place):
    question = place.question("q", COUNT, "SELECT 8", "SELECT 9", "SELECT 7", verified_sql=COUNT)
    [stored] = place.answer(question)
    assert stored.status == AnswerStatus.LOW_AGREEMENT
    assert stored.verified in (Verified.MATCH, Verified.DIFFERS)


@pytest.mark.parametrize(
    ("sql", "expected", "words"),
    [
        (COUNT, {"columns": ("stores",)}, "its columns are shops, expected stores"),
        ("SELECT id FROM shop", {"most_rows": 2}, "it has 3 rows, expected at most 2"),
        (COUNT, {"least_rows": 2}, "it has 1 row, expected at least 2"),
        ("SELECT sum(id) FROM shop WHERE id > 9", {"not_empty": True}, "it has no value"),
    ],
)
def test_an_answer_that_breaks_an_expectation_is_not_published(place, sql, expected, words):
    question = place.question("q", sql, expectations=Expectations(**expected))
    [stored] = place.answer(question)
    assert stored.status == AnswerStatus.REFUTED
    assert words in stored.error
    assert stored.expectations == question.expectations.to_dict()
    [entry] = read_entries(place.store, [stored])
    assert words in render_page("2026-03-02", [entry])


def test_an_answer_that_keeps_to_its_expectations_is_published(place):
    expected = Expectations(("shops",), 1, 1, True)
    [stored] = place.answer(place.question("q", COUNT, expectations=expected))
    assert stored.status == AnswerStatus.ANSWERED


def test_other_sql_on_the_same_data_is_flagged(place):
    question = place.question("q", COUNT)
    place.answer(question)
    place.replies.steps["ask q"] = [submits("SELECT 3 AS shops")]
    [other] = place.answer(question, day=NEXT)
    place.replies.steps["ask q"] = [submits("SELECT 4 AS shops")]
    [worse] = place.answer(question, day=date(2026, 3, 4))
    warnings = [entry.difference.warning for entry in read_entries(place.store, [other, worse])]
    assert warnings == [
        "The SQL changed while the data did not, and returns the same result.",
        "The SQL changed while the data did not, and returns a different result.",
    ]
    assert warnings[1] in render_page("2026-03-04", read_entries(place.store, [worse]))


# -- what is data


def test_evidence_reaches_the_policy_and_hostile_text_stays_text(place):
    text = "x'); DROP TABLE answers;-- :name 100% $1 <script>alert(1)</script>"
    question = place.question("q", COUNT, question=text, evidence="cities are <b>text</b>")
    [stored] = place.answer(question)
    [sent] = {
        m["content"] for r in place.server.requests for m in r["messages"] if m["role"] == "user"
    }
    assert sent == f"{text}\n\nEvidence: cities are <b>text</b>"
    assert stored.question == text
    assert stored.status == AnswerStatus.ANSWERED
    page = render_page("2026-03-02", read_entries(place.store, [stored]))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_page_shows_answers_and_refusals_and_needs_no_network(place):
    place.change("INSERT INTO shop VALUES (5, '<img src=x onerror=alert(1)>')")
    good = place.question("good", "SELECT city, id FROM shop")
    unsure = place.question("unsure", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT '<i>'")
    broken = place.question("broken", fails(500, "<b>down</b>"))
    page = render_page("2026-03-02", read_entries(place.store, place.answer(good, unsure, broken)))
    assert "1 of 3 questions answered" in page
    assert "too few candidate queries agree" in page
    assert "Content-Security-Policy" in page
    assert "1 of 4 candidates agree (25%, a tie with another result)" in page
    assert "&lt;img src=x" in page
    for forbidden in ("<img", "<i>", "<b>", "<script", "<link", 'href="h', "url(", "@import"):
        assert forbidden not in page
