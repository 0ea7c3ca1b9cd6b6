"""Changing the champion in Dagster: deciding, keeping, going back, promoting by hand."""

from __future__ import annotations

import dagster as dg
import pytest
from click.testing import CliRunner

from pipelines.definitions import defs
from pipelines.home import open_instance
from tests.evaluation.promotion_place import candidate, champion
from tests.pipelines.test_lifecycle import QUIET
from text2sql.cli.main import cli
from text2sql.evaluation.promotion.changes import history, promote_by_hand
from text2sql.evaluation.promotion.gate import GateRules


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An artifact root of its own."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    monkeypatch.delenv("TEXT2SQL_REPORTING_URL", raising=False)
    return tmp_path


@pytest.fixture
def instance():
    """An instance of its own."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def act(instance: dg.DagsterInstance, gate: dict | None = None, **config):
    """Materialize champion_policy with a config, as the launchpad does; return the run."""
    resources = {"gate": {"config": gate}} if gate else {}
    return defs.resolve_job_def("champion_rollback").execute_in_process(
        instance=instance,
        raise_on_error=False,
        run_config={
            "ops": {"champion_policy": {"config": config}},
            "resources": resources,
            "loggers": QUIET,
        },
    )


def said(run) -> dict:
    """Return the metadata of champion_policy."""
    (event,) = run.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def why(run) -> str:
    """Return why champion_policy failed."""
    (failure,) = run.get_step_failure_events()
    return failure.step_failure_data.error.cause.message


def test_the_asset_decides_keeps_rolls_back_and_promotes_by_hand(root, instance):
    candidate(root, "june", 20)
    candidate(root, "july", 22)
    candidate(root, "august", 34)
    first = act(instance, action="decide", training_run="june")
    assert said(first)["decision"].startswith("june is the first champion.")
    assert champion(root)["dagster_run"] == first.run_id
    checks = [one["check"] for one in champion(root)["findings"]]
    assert checks == ["accuracy_holds", "writes_bounded", "evaluation_complete", "back_test"]

    kept = said(act(instance, action="decide", training_run="july"))
    assert kept["decision"].startswith(
        "The champion june stays: july is not better beyond noise than the champion june: "
        "55.0 vs 50.0, 2 gained, 0 lost of 40"
    )
    assert (kept["training run"], kept["champions before"]) == ("june", 0)
    assert len(history(root)) == 1

    lenient = act(instance, gate={"promote": "not_worse"}, action="decide", training_run="july")
    assert "is promoted (promote: not_worse)" in said(lenient)["decision"]

    better = said(act(instance, action="decide", training_run="august"))
    assert "august is better beyond noise than the champion july" in better["decision"]

    assert "Give a reason of 1 to 1,000 characters" in why(act(instance, action="roll_back"))
    back = act(instance, action="roll_back", reason="wrong totals", to=1)
    assert said(back)["decision"] == "june is champion again: wrong totals"
    (event,) = back.get_asset_materialization_events()
    assert event.materialization.tags["dagster/data_version"] == champion(root)["revision"]

    candidate(root, "worse", 8)
    refused = why(act(instance, action="decide", training_run="worse"))
    assert "The training run worse cannot take over. " in refused
    assert "Worse beyond noise than the champion june" in refused
    by_hand = said(
        act(instance, action="promote_by_hand", training_run="worse", reason="a customer asks")
    )
    assert by_hand["decision"] == (
        "worse was promoted by hand, in spite of accuracy_holds; not run: back_test."
    )
    assert [one["act"] for one in history(root)] == [
        *("promotion", "promotion", "promotion", "rollback", "by hand")
    ]
    rows = [record.data for record in by_hand["history"].records]
    assert len(rows) == 5 and rows[0]["training run"] == "worse"


def test_a_broken_record_fails_the_asset_and_is_not_overwritten(root, instance):
    candidate(root, "june", 20)
    (root / "champion.json").write_text("{broken")
    for config in (
        {"action": "decide", "training_run": "june"},
        {"action": "promote_by_hand", "training_run": "june", "reason": "x"},
        {"action": "roll_back", "reason": "x"},
    ):
        assert "champion.json cannot be read as JSON" in why(act(instance, **config))
    assert (root / "champion.json").read_text() == "{broken"


def test_the_rollback_job_asks_only_for_the_reason(root, instance):
    for number, run in enumerate(("june", "july")):
        candidate(root, run, 15 + 15 * number)
        assert act(instance, action="decide", training_run=run).success
    job = defs.resolve_job_def("champion_rollback")
    assert job.run_config == {
        "ops": {"champion_policy": {"config": {"action": "roll_back", "reason": ""}}}
    }
    assert "Give a reason" in why(job.execute_in_process(instance=instance, raise_on_error=False))
    assert act(instance, action="roll_back", reason="tried").success
    assert champion(root)["training_run"] == "june"


def latest(instance: dg.DagsterInstance) -> dg.AssetMaterialization:
    """Return the last materialization of champion_policy."""
    event = instance.get_latest_materialization_event(dg.AssetKey("champion_policy"))
    assert event is not None and event.asset_materialization is not None
    return event.asset_materialization


def test_dagster_shows_a_commands_change_at_once(root, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "")
    for number, run in enumerate(("june", "july")):
        candidate(root, run, 15 + 15 * number)
    promote_by_hand(root, "june", "the first", GateRules())
    with open_instance(root) as instance:
        words = ["champion", "promote", "july", "--reason", "a customer asks"]
        done = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert done.exit_code == 0 and not done.stderr
        seen = latest(instance)
        assert seen.tags is not None
        assert seen.tags["dagster/data_version"] == champion(root)["revision"]
        shown = {name: value.value for name, value in seen.metadata.items()}
        assert shown["decision"] == "july is champion now (by hand): a customer asks"
        assert shown["training run"] == "july" and len(shown["history"].records) == 2
    home = root / "dagster_home"
    (home / "dagster.yaml").unlink()
    (home / "dagster.yaml").write_text("nonsense: 1")
    done = CliRunner().invoke(cli, ["champion", "rollback", "--reason", "x"])
    assert done.exit_code == 0 and "is champion again" in done.stdout
    assert "note: Dagster could not record it (" in done.stderr
    assert champion(root)["training_run"] == "june"
