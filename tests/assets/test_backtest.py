"""Back-tests: verified questions, a champion and a candidate behind real servers."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import dagster as dg
import pytest

from assets.promotion.back_test import back_test_run
from assets.promotion.champion import champion_policy, model_card
from assets.promotion.gate import back_test, promotion_gate
from pipelines.sensors import reason_of
from resources.artifact_root import ArtifactRoot
from resources.gate import PromotionGate
from resources.policy import PolicyResource
from resources.reporting import URL_VARIABLE, ReportingDatabase
from resources.sandbox import SandboxResource
from tests.evaluation.promotion_place import DATASET, PROMPTS, QUESTIONS, evaluate, note
from tests.support.reporting_databases import save
from tests.support.scripted_server import ScriptedServer, Step, fails, submits
from text2sql.common.artifacts import evaluation_folder
from text2sql.common.json_files import write_json
from text2sql.datasets.pocket.corpus import SHIPPED_QUESTIONS, generate_business_databases
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.served.server import named_revision
from text2sql.reporting.answering.backtest import BackTestVerdict
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.question_file import read_questions
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import Sandbox, Status

COUNT = "SELECT COUNT(*) FROM shop"
RUN = "new"


class Policy:
    """A served policy: what it submits to each question; it counts what it was asked."""

    def __init__(self, name: str, replies: dict[str, str | Step]) -> None:
        self.replies = replies
        self.server = ScriptedServer(self._reply, [name])
        self.revision = named_revision(name, f"/m/{name}")

    def _reply(self, body: dict) -> Step:
        user = next(m["content"] for m in body["messages"] if m["role"] == "user")
        reply = self.replies[user]
        return submits(reply) if isinstance(reply, str) else reply

    @property
    def asked(self) -> int:
        return len(self.server.requests)


class Place:
    """An artifact root with a champion, a candidate that was trained, and questions."""

    def __init__(self, folder: Path) -> None:
        self.root = ArtifactRoot(root=str(folder / "artifacts"))
        self.database = folder / "shop.sqlite"
        with sqlite3.connect(self.database) as connection:
            connection.execute("CREATE TABLE shop(id INTEGER)")
            connection.execute("INSERT INTO shop VALUES (1), (2), (3)")
        connection.close()
        self.policies: list[Policy] = []

    def champion(self, **replies: str | Step) -> Policy:
        found = self._policy("old", replies)
        record = {"policy": found.server.url, "revision": found.revision, "training_run": "old",
                  "dataset": DATASET, "prompt_revision": PROMPTS,
                  "outcomes": {f"dev/{n}": 0.0 for n in range(QUESTIONS)}}  # fmt: skip
        write_json(self.root.path / "champion.json", record)
        return found

    def candidate(self, name: str = "new", **replies: str | Step) -> Policy:
        found = self._policy(name, replies)
        note(self.root.path, RUN, found.server.url, found.revision)
        return found

    def _policy(self, name: str, replies: dict[str, str | Step]) -> Policy:
        found = Policy(name, replies)
        self.policies.append(found)
        return found

    def verified(self, **sql: str | None) -> None:
        """Save questions whose text is their id, with verified SQL."""
        questions = [
            ReportQuestion(name, name, str(self.database), votes=4, verified_sql=one)
            for name, one in sql.items()
        ]
        with ReportingStore(f"sqlite:///{self.root.path / 'reporting.sqlite'}") as store:
            save(store, *questions)

    def test(self) -> BackTestVerdict:
        resources = (ReportingDatabase(), PolicyResource(), SandboxResource())
        return back_test_run(self.root.path, RUN, "d1", *resources)

    def promote(self, right: int = 30) -> dg.ExecuteInProcessResult:
        """Run card, gates and promotion as the lifecycle does; Dagster decides what stops."""
        evaluate(self.root.path, RUN, right)
        return dg.materialize(
            [model_card, promotion_gate, back_test, champion_policy],
            selection=dg.AssetSelection.assets("model_card", "champion_policy"),
            instance=self.instance,
            partition_key=RUN,
            raise_on_error=False,
            resources={
                "root": self.root,
                "reporting": ReportingDatabase(),
                "policy": PolicyResource(),
                "sandbox": SandboxResource(),
                "gate": PromotionGate(),
            },
        )


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    place = Place(tmp_path)
    yield place
    for policy in place.policies:
        policy.server.__exit__()


def test_a_candidate_that_answers_fewer_verified_questions_right_fails(place):
    place.champion(a=COUNT, b="SELECT max(id) FROM shop", c="SELECT 9")
    place.candidate(a=COUNT, b="SELECT min(id) FROM shop", c="SELECT 9")
    place.verified(a="SELECT 3", b="SELECT 3", c="SELECT 3", d=None)
    found = place.test()
    assert not found.passed
    assert found.sentence == (
        "Of 3 verified questions it answers 1 right, the champion 2. Lost: b."
    )
    [flip] = found.flips
    assert (flip["question_id"], flip["before"], flip["after"]) == ("b", "right", "wrong")
    assert (flip["sql_before"], flip["sql_after"]) == (
        "SELECT max(id) FROM shop",
        "SELECT min(id) FROM shop",
    )


def test_a_candidate_that_wins_as_many_as_it_loses_passes_and_lists_the_flips(place):
    place.champion(a=COUNT, b="SELECT 9")
    place.candidate(a="SELECT id FROM shop WHERE id > 9", b=COUNT)
    place.verified(a=COUNT, b=COUNT)
    found = place.test()
    assert found.passed
    assert "Lost: a. Gained: b." in found.sentence
    assert [flip["after"] for flip in found.flips] == ["refused", "right"]


def test_a_verdict_is_reused_until_something_changes(place):
    champion = place.champion(a=COUNT)
    candidate = place.candidate(a=COUNT)
    place.verified(a=COUNT)
    assert place.test() == place.test()
    assert (champion.asked, candidate.asked) == (4, 4)
    place.verified(a="SELECT 4")
    assert "it answers 0 right, the champion 0" in place.test().sentence
    assert (champion.asked, candidate.asked) == (4, 4), "the rollouts are there already"
    record = json.loads((evaluation_folder(place.root.path, RUN) / "back_test.json").read_text())
    assert (record["champion"], record["compared"], record["right_before"]) == ("old", 1, 0)


def test_without_verified_questions_it_is_skipped_and_nobody_is_asked(place):
    policies = place.champion(), place.candidate()
    place.verified(a=None)
    found = place.test()
    assert found == BackTestVerdict(True, "Skipped: no question of the reports has verified SQL.")
    assert [policy.asked for policy in policies] == [0, 0]


def test_a_first_champion_and_the_champion_itself_have_nothing_to_lose(place):
    place.candidate(a=COUNT)
    place.verified(a=COUNT)
    assert "no champion to compare with yet" in place.test().sentence
    place.champion(a=COUNT)
    place.candidate("old", a=COUNT)
    assert "it has the champion's own weights" in place.test().sentence


def test_a_champion_whose_weights_are_gone_is_reported(place):
    place.champion()
    place.candidate(a=COUNT)
    place.verified(a=COUNT)
    record = json.loads((place.root.path / "champion.json").read_text())
    write_json(place.root.path / "champion.json", record | {"policy": "/gone/weights"})
    assert place.test().sentence == "Skipped: the champion's weights are gone from /gone/weights."


def test_questions_without_a_valid_grade_are_left_out(place):
    place.champion(a=COUNT, b=COUNT)
    place.candidate(a=COUNT, b=COUNT)
    place.verified(a="SELECT owner FROM shop", b=COUNT)
    assert place.test().sentence == (
        "Of 1 verified question it answers 1 right, the champion 1. Not compared: a."
    )
    place.database.unlink()
    assert "the databases of the verified questions are gone (a, b)" in place.test().sentence


def test_a_failing_server_gives_no_verdict(place):
    place.champion(a=COUNT)
    place.candidate(a=fails(400, "no such model"))
    place.verified(a=COUNT)
    with pytest.raises(InfrastructureError, match=r"'a' cannot be answered.*no such model"):
        place.test()


def test_other_weights_than_those_recorded_are_refused(place):
    place.champion(a=COUNT)
    place.candidate(a=COUNT)
    place.verified(a=COUNT)
    file = place.root.path / "training" / RUN / "training.json"
    write_json(file, json.loads(file.read_text()) | {"policy_revision": "0" * 16})
    with pytest.raises(Text2SqlError, match="not those that were recorded"):
        place.test()


def test_the_verified_sql_of_the_shipped_questions_runs(tmp_path):
    database = next(generate_business_databases(tmp_path).rglob("*.sqlite"))
    verified = [one for one in read_questions(SHIPPED_QUESTIONS) if one.verified_sql is not None]
    assert len(verified) >= 4
    with Sandbox(workers=1) as sandbox:
        for question in verified:
            result = sandbox.execute(database, question.verified_sql)
            assert (result.status, result.row_count > 0) == (Status.OK, True), question.id


def test_dagster_promotes_nothing_that_failed_the_back_test(place):
    place.champion(a=COUNT)
    place.candidate(a="SELECT 9")
    place.verified(a=COUNT)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("training_run", [RUN])
        place.instance = instance
        result = place.promote()
        assert not result.success
        [failed] = [c for c in result.get_asset_check_evaluations() if not c.passed]
        assert failed.check_name == "back_test"
        assert "Lost: a." in failed.description
        assert json.loads((place.root.path / "champion.json").read_text())["training_run"] == "old"
        shutil.rmtree(evaluation_folder(place.root.path, RUN))
        place.verified(a=None)
        assert place.promote().success
    assert json.loads((place.root.path / "champion.json").read_text())["training_run"] == RUN


def test_a_run_that_the_gate_stopped_has_the_checks_message(place):
    place.champion(a=COUNT)
    place.candidate(a=COUNT)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("training_run", [RUN])
        place.instance = instance
        result = place.promote(right=2)
        assert not result.success
        passed = {one.check_name: one.passed for one in result.get_asset_check_evaluations()}
        assert [name for name, fine in passed.items() if not fine] == ["accuracy_holds"]
        reason = reason_of(instance, result.dagster_run)
    assert reason.startswith("A check failed. model_card: accuracy_holds: Worse beyond noise than")
