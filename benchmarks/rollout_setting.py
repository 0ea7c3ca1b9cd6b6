"""What the benchmarks of rollouts share: a small database, its questions, and drawing on them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.rollout_server import GOLD
from text2sql.agent.settings import AgentSettings
from text2sql.judge.verdicts import GoldResult, run_gold
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import Retry, ServerPolicy
from text2sql.questions import Question
from text2sql.rollouts.draw import RolloutPlan
from text2sql.rollouts.store import Rollout, RolloutStore
from text2sql.sandbox import Sandbox

SCRIPT = """
CREATE TABLE city(id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT, population INTEGER);
CREATE TABLE team(id INTEGER PRIMARY KEY, city_id INTEGER REFERENCES city, name TEXT);
INSERT INTO city VALUES (1, 'Bern', 'CH', 134), (2, 'Oslo', 'NO', 709), (3, 'Rome', 'IT', 2749);
INSERT INTO team VALUES (10, 1, 'Bears'), (11, 1, 'Bees'), (12, 2, NULL);
"""


def build(folder: Path) -> Path:
    """Write the database, unless it is there."""
    path = folder / "shop.sqlite"
    if not path.exists():
        with sqlite3.connect(path) as connection:
            connection.executescript(SCRIPT)
        connection.close()
    return path


def questions_on(database: Path, count: int) -> list[Question]:
    """Return questions whose numbers say what the server answers."""
    return [
        Question(f"bench/{number}", database.stem, database, f"question {number}", sql=GOLD)
        for number in range(count)
    ]


@dataclass
class Drawing:
    """Rollouts to draw: of ``count`` questions, ``samples`` each, into ``store``."""

    folder: Path
    url: str
    store: str
    count: int
    samples: int = 1
    concurrency: int = 64
    retry: Retry | None = None
    request_seconds: float = 600.0

    @property
    def path(self) -> Path:
        """Where the rollouts are stored."""
        return self.folder / self.store

    def policy(self) -> ServerPolicy:
        """Return a client of the server."""
        return ServerPolicy(
            self.url, "bench", retry=self.retry, request_seconds=self.request_seconds
        )

    def run(self, on_progress: Callable[[int, int], None] | None = None) -> list[Rollout]:
        """Draw what is missing."""
        questions = questions_on(build(self.folder), self.count)

        async def draw(sandbox: Sandbox) -> list[Rollout]:
            policy = self.policy()
            plan = RolloutPlan(
                policy,
                sandbox,
                AgentSettings(),
                Sampling(temperature=1.0),
                self.samples,
                golds_of(questions, sandbox),
                self.concurrency,
            )
            try:
                return await plan.rollouts(
                    questions, RolloutStore(self.path), on_progress=on_progress, transcripts=False
                )
            finally:
                await policy.close()

        with Sandbox() as sandbox:
            return asyncio.run(draw(sandbox))


def golds_of(questions: list[Question], sandbox: Sandbox) -> dict[str, GoldResult]:
    """Return the gold results; all questions have the same gold query."""
    gold = run_gold(questions[0], sandbox)
    return {question.key: replace(gold, key=question.key) for question in questions}
