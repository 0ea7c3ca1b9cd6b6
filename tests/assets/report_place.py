"""A place where reports are made: a shop, questions, a champion behind a real server."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.reporting.answers import report_answers
from assets.reporting.questions import report_questions
from resources.artifact_root import ArtifactRoot
from resources.delivery import DeliveryResource
from resources.policy import PolicyResource
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from tests.support.scripted_server import ScriptedServer, Step, submits
from text2sql.policy.served.server import named_revision
from text2sql.reporting.tables.location import URL_VARIABLE

DAY = "2026-03-02"
FINE = dict.fromkeys(
    (
        "published_sound",
        "questions_answered",
        "candidates_agree",
        "answers_steady",
        "verified_hold",
        "delivered",
    ),
    True,
)
COUNT = "SELECT COUNT(*) AS shops FROM shop"


class Place:
    """An artifact root with a shop database, a champion behind a server, and questions."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.root = folder / "artifacts"
        self.databases = folder / "databases"
        self.file = folder / "questions.yaml"
        self.replies: dict[str, Step] = {}
        self.server = server
        self.instance = dg.DagsterInstance.ephemeral()
        self.databases.mkdir()
        self.root.mkdir()
        connection = sqlite3.connect(self.databases / "shop.sqlite")
        with connection:
            connection.execute("CREATE TABLE shop(id INTEGER)")
            connection.execute("INSERT INTO shop VALUES (1), (2)")
        connection.close()
        self.promote(named_revision("scripted", "/m/scripted"))

    def promote(self, revision: str) -> None:
        champion = {"policy": self.server.url, "revision": revision, "training_run": "demo"}
        (self.root / "champion.json").write_text(json.dumps(champion))

    def ask(self, **replies: Step | str) -> None:
        """Write the questions' file: an id and what every candidate replies to it."""
        self.replies = {id: submits(r) if isinstance(r, str) else r for id, r in replies.items()}
        self.write([{"id": id, "question": f"ask {id}", "database": "shop"} for id in replies])

    def write(self, questions: list) -> None:
        self.file.write_text(yaml.safe_dump(questions))

    def reply(self, body: dict) -> Step:
        user = next(m["content"] for m in body["messages"] if m["role"] == "user")
        return self.replies[user.removeprefix("ask ")]

    def run(self, *assets, day: str | None = None, raises: bool = True, tags=None, **config):
        return dg.materialize(
            list(assets),
            tags=tags,
            instance=self.instance,
            partition_key=day,
            raise_on_error=raises,
            run_config={"ops": {assets[0].key.to_user_string(): {"config": config}}},
            resources={
                "root": ArtifactRoot(root=str(self.root)),
                "reporting": ReportingDatabase(),
                "policy": PolicyResource(),
                "sandbox": SandboxResource(workers=2),
                "delivery": DeliveryResource(),
            },
        )

    def load(self, **config):
        return self.run(
            report_questions, file=str(self.file), databases=str(self.databases), **config
        )

    def answer(self, day: str = DAY, **config):
        return self.run(report_answers, day=day, **config)

    def change(self, sql: str) -> None:
        """Change the reporting tables by hand."""
        connection = sqlite3.connect(self.root / "reporting.sqlite")
        with connection:
            connection.execute(sql)
        connection.close()

    def query(self, sql: str) -> list[tuple]:
        """Read the reporting tables as a person with plain SQLite does."""
        connection = sqlite3.connect(self.root / "reporting.sqlite")
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    holder: list[Place] = []
    with ScriptedServer(lambda body: holder[0].reply(body)) as server:
        holder.append(Place(tmp_path, server))
        yield holder[0]


def checks(result) -> dict[str, bool]:
    return {c.check_name: c.passed for c in result.get_asset_check_evaluations()}
