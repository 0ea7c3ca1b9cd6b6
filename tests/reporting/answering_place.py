"""What the tests of answering share: a shop, a reporting database and a policy that replies."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.support.reporting_databases import save
from tests.support.scripted_server import ScriptedServer, Step, submits
from text2sql.agent.settings import AgentSettings
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import Retry, ServerPolicy
from text2sql.reporting.answering.attempt import Answerer
from text2sql.reporting.answering.day import answer_day
from text2sql.reporting.model.answer import StoredAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import Sandbox

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
            code_version="c1",
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
        save(self.store, question)
        return question

    def answer(self, *questions: ReportQuestion, day: date = DAY, **options) -> list[StoredAnswer]:
        outcomes = asyncio.run(answer_day(self.store, questions, day, self.answerer, **options))
        self.reused = [outcome.reused for outcome in outcomes]
        return [outcome.answer for outcome in outcomes]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as box:
        yield box


@pytest.fixture
def place(tmp_path: Path, box: Sandbox) -> Iterator[Place]:
    replies = Replies()
    with ScriptedServer(replies) as server:
        place = Place(tmp_path, server, box, replies)
        yield place
        place.store.close()
