"""A champion that was not trained here: a served model answers, and can be replaced again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from resources.policy import PolicyResource
from tests.support.scripted_server import ScriptedServer
from text2sql.agent.settings import AgentSettings
from text2sql.cli.doctor.policy import check_policy
from text2sql.cli.main import cli
from text2sql.common.artifacts import ROOT_VARIABLE
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.evaluation.promotion.changes import history
from text2sql.policy.open import open_policy


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, ["champion", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    return tmp_path


def test_a_served_model_answers_until_another_is_adopted(root: Path) -> None:
    with ScriptedServer([], ["small"]) as small, ScriptedServer([], ["large"]) as large:
        assert "is champion now" in run("adopt", small.url, "--reason", "first")
        champion = champion_record(root)
        assert (champion["policy"], champion["training_run"]) == (f"{small.url}#small", "base")
        with pytest.raises(Text2SqlError, match="is the champion already"):
            run("adopt", small.url, "--reason", "again")
        shown = json.loads(run("adopt", large.url, "--reason", "second", "--json"))
        assert (shown["number"], shown["act"], shown["greedy"]) == (2, "adopted", "not evaluated")
        run("rollback", "--reason", "worse")
    assert champion_record(root)["policy"] == f"{small.url}#small"
    assert [one["reason"] for one in history(root)] == ["first", "second", "worse"]


def test_one_of_a_servers_models_is_chosen_and_recorded(root: Path) -> None:
    with ScriptedServer([], ["small", "large"]) as server:
        with pytest.raises(Text2SqlError, match="choose one with --model: small, large"):
            run("adopt", server.url, "--reason", "which one?")
        with pytest.raises(Text2SqlError, match="has no model 'huge'; it has: small, large"):
            run("adopt", server.url, "--model", "huge", "--reason", "a typo")
        run("adopt", server.url, "--model", "large", "--reason", "the better one")
        champion = champion_record(root)
        place = f"{server.url}#large"
        assert champion["policy"] == place
        for resource in (PolicyResource(), PolicyResource(base="pocket", model="of the base")):
            assert resource.revision(place) == champion["revision"]
            assert resource.settings(place) == AgentSettings()
        with pytest.raises(Text2SqlError, match="already names a model: leave 'small' out"):
            open_policy(place, "small")
        found = list(check_policy(place, None))
        assert "small, large" in found[0].found and found[1].found.startswith("large ")
    with pytest.raises(Text2SqlError, match="--model chooses a model of a server"):
        run("adopt", "pocket", "--model", "large", "--reason", "no server")


def test_a_policy_that_cannot_answer_is_not_adopted(root: Path) -> None:
    with (
        ScriptedServer([], ["small"]) as server,
        pytest.raises(Text2SqlError, match="Give a reason"),
    ):
        run("adopt", server.url, "--reason", " ")
    with pytest.raises(InfrastructureError):
        run("adopt", server.url, "--reason", "gone")
    with pytest.raises(Text2SqlError, match="There is no policy"):
        run("adopt", str(root / "nowhere"), "--reason", "typo")
    assert champion_record(root) == {}
