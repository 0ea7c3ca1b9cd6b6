"""Answering a day's questions against a real HTTP server, sandbox and reporting database."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import defaultdict
from datetime import date
from pathlib import Path

import pytest
from scripted_server import ScriptedServer, Step, calls, fails, says, submits

from text2sql.policy.base import Sampling
from text2sql.policy.server import Retry, ServerPolicy
from text2sql.reporting.answering import Answerer, answer_day
from text2sql.reporting.answers import AnswerStatus, Change
from text2sql.reporting.entries import entries
from text2sql.reporting.fingerprint import database_fingerprint
from text2sql.reporting.page import render_page
from text2sql.reporting.questions import ReportQuestion
from text2sql.reporting.store import ReportingStore
from text2sql.sandbox import Sandbox
from text2sql.settings import AgentSettings

DAY = date(2026, 3, 2)
NEXT = date(2026, 3, 3)
COUNT = "SELECT COUNT(*) AS shops FROM shop"


class Replies:
    """What each question's candidates reply, in turn; counts the requests for each question."""

    def __init__(self) -> None:
        self.steps: dict[str, list[Step]] = {}
        self.asked: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def __call__(self, body: dict) -> Step:
        user = next(m["content"] for m in body["messages"] if m["role"] == "user")
        question = user.split("\n")[0]
        with self._lock:
            turn = self.asked[question]
            self.asked[question] += 1
        steps = self.steps[question]
        return steps[turn % len(steps)]


class Place:
    """A shop database, a reporting database, and a policy server that replies as told."""

    def __init__(self, folder: Path, server: ScriptedServer, box: Sandbox, replies: Replies):
        self.folder, self.server, self.replies = folder, server, replies
        self.database = folder / "shop.sqlite"
        self.store = ReportingStore(f"sqlite:///{folder / 'reporting.sqlite'}")
        policy = ServerPolicy(server.url, "scripted", retry=Retry(attempts=1))
        self.answerer = Answerer(
            policy,
            box,
            AgentSettings(),
            Sampling(temperature=1.0),
            folder / "transcripts",
            training_run="t1",
            dagster_run_id="d1",
        )
        self.change("CREATE TABLE shop(id INTEGER, city TEXT)")
        self.change("INSERT INTO shop VALUES (1, 'Oslo'), (2, 'Bonn'), (3, NULL)")

    def change(self, sql: str) -> None:
        connection = sqlite3.connect(self.database)
        with connection:
            connection.execute(sql)
        connection.close()

    def question(self, id: str, *steps: Step | str, **fields) -> ReportQuestion:
        """A question, saved, with the replies of its candidates; text is submitted."""
        text = fields.pop("question", f"ask {id}")
        self.replies.steps[text] = [submits(s) if isinstance(s, str) else s for s in steps]
        given = {"database": str(self.database), "votes": 4, "minimum_share": 0.5} | fields
        question = ReportQuestion(id, text, **given)
        self.store.save_questions([question])
        return question

    def answer(self, *questions: ReportQuestion, day: date = DAY, **options) -> list:
        outcomes = asyncio.run(answer_day(self.store, questions, day, self.answerer, **options))
        self.reused = [outcome.reused for outcome in outcomes]
        return [outcome.answer for outcome in outcomes]


@pytest.fixture(scope="module")
def box():
    with Sandbox(workers=2) as box:
        yield box


@pytest.fixture
def place(tmp_path, box):
    replies = Replies()
    with ScriptedServer(replies) as server:
        place = Place(tmp_path, server, box, replies)
        yield place
        place.store.close()


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
    assert stored.prompt_revision
    assert stored.sampling == {"temperature": 1.0, "top_p": 1.0, "max_tokens": 2048}
    assert (stored.prompt_tokens, stored.completion_tokens) == (40, 80)
    chosen = [candidate.chosen for candidate in place.store.candidates(stored)]
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


def test_one_failing_question_does_not_stop_the_others(place):
    """The third of five meets a broken server; a second run asks for that one only."""
    questions = [place.question(f"q{i}", COUNT) for i in range(5)]
    place.replies.steps["ask q2"] = [fails(500, "out of memory")]
    answers = place.answer(*questions)
    assert [a.status for a in answers] == ["answered"] * 2 + ["error"] + ["answered"] * 2
    assert "out of memory" in answers[2].error
    assert {c.status for c in place.store.candidates(answers[2])} == {"infrastructure"}
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
    assert len(place.store.candidates(stored)) == 4


def test_the_minimum_share_itself_is_enough(place):
    question = place.question("q", "SELECT 1", "SELECT 1", "SELECT 1", "SELECT 4", "SELECT 5",
                              votes=5, minimum_share=0.6)  # fmt: skip
    [stored] = place.answer(question)
    assert (stored.status, stored.share) == (AnswerStatus.ANSWERED, 0.6)


def test_without_consensus_there_is_no_answer_and_the_reason_is_told(place):
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


def test_changed_data_is_told_from_changed_sql(place):
    question = place.question("q", COUNT)
    place.answer(question)
    place.change("INSERT INTO shop VALUES (4, 'Rome')")
    [changed] = place.answer(question, day=NEXT)
    assert changed.change == Change.DATA_CHANGED
    assert place.store.difference(changed).rows.changed == (({"shops": 3}, {"shops": 4}),)
    place.replies.steps["ask q"] = [submits("SELECT COUNT(*) AS shops FROM shop AS s")]
    [same] = place.answer(question, day=date(2026, 3, 4))
    assert same.change == Change.SQL_CHANGED


def test_a_large_result_is_capped_and_counted(place):
    numbers = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)"
        " SELECT i, i AS I, x'616263', 9e999 FROM n"
    )
    [stored] = place.answer(place.question("q", numbers))
    assert (stored.row_count, stored.rows_kept) == (25_000, 10_000)
    rows = place.store.rows(stored)
    assert list(rows[-1].values()) == [10_000, 10_000, b"abc", float("inf")]


def test_an_interrupted_question_asks_only_for_what_is_missing(place):
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
    place.store.save_questions([question])
    [stored] = place.answer(question)
    assert (stored.status, place.replies.asked["ask q"]) == (AnswerStatus.ANSWERED, 5)


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
    page = render_page("2026-03-02", entries(place.store, [stored]))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_page_shows_answers_and_refusals_and_needs_no_network(place):
    place.change("INSERT INTO shop VALUES (5, '<img src=x onerror=alert(1)>')")
    good = place.question("good", "SELECT city, id FROM shop")
    unsure = place.question("unsure", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT '<i>'")
    broken = place.question("broken", fails(500, "<b>down</b>"))
    page = render_page("2026-03-02", entries(place.store, place.answer(good, unsure, broken)))
    assert "1 of 3 questions answered" in page
    assert "agree too little" in page
    assert "1 of 4 candidates agree (25%, a tie with another result)" in page
    assert "&lt;img src=x" in page
    for forbidden in ("<img", "<i>", "<b>", "<script", "<link", 'href="h', "url(", "@import"):
        assert forbidden not in page
