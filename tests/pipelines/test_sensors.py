"""What the project starts by itself: sensors and conditions on real instances and real files."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pytest
import sqlalchemy as sa

from pipelines.definitions import defs
from pipelines.partitions import today
from resources.automation import CONFIG_VARIABLE
from resources.delivery import FROM_VARIABLE, SMTP_VARIABLE, TO_VARIABLE, WEBHOOK_VARIABLE
from resources.run_config import read_run_config
from tests.pipelines.test_lifecycle import QUIET, ingest, train_elsewhere
from tests.reporting.mail_server import MailServer
from tests.support.lifecycle_tools import answering
from tests.support.reporting_databases import save
from tests.support.scripted_server import ScriptedServer, fails, replay
from text2sql.common.json_files import write_json
from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.channels import Notice, Webhook
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.location import URL_VARIABLE
from text2sql.reporting.tables.schema import answers
from text2sql.reporting.tables.store import ReportingStore

NAMES = {"conditions", "declining_answers", "failed_runs", "finished_training", "new_training_data"}
REPOSITORY = defs.get_repository_def()
SENSORS = {sensor.name: sensor for sensor in REPOSITORY.sensor_defs}
RUNS = dg.DynamicPartitionsDefinition(name="training_run")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An artifact root of its own."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    for variable in (CONFIG_VARIABLE, WEBHOOK_VARIABLE, SMTP_VARIABLE, URL_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.fixture
def instance():
    """A real instance: SQLite in a folder of its own."""
    with dg.instance_for_test() as instance:
        yield instance


def tick(name: str, instance: dg.DagsterInstance, cursor: str | None = None):
    """Evaluate a sensor once, as the daemon does."""
    sensor, resources = SENSORS[name], REPOSITORY.get_top_level_resources()
    wanted = {key: resources[key] for key in sensor.required_resource_keys}
    context = dg.build_sensor_context(
        instance, cursor, repository_def=REPOSITORY, sensor_name=name, resources=wanted,
        instance_ref=instance.get_ref(),
    )  # fmt: skip
    return sensor.evaluate_tick(context)


def asked(found) -> list[tuple[str, str]]:
    """Return the run key and the partition of each run that was asked for."""
    return [(one.run_key, one.partition_key) for one in found.run_requests]


def ingested(root, fingerprint: str) -> None:
    """Make a dataset the one that passed its checks last."""
    row = {"source": "s", "folder": "f", "fingerprint": fingerprint, "splits": {}}
    write_json(root / "bird" / "current.json", row)


def champion(root, dataset: str = "", revision: str = "r1") -> None:
    """Make somebody champion."""
    record = {"policy": "http://127.0.0.1:1", "revision": revision, "training_run": "june"}
    write_json(root / "champion.json", record | ({"dataset": dataset} if dataset else {}))


def test_all_that_start_something_are_off_and_described():
    assert set(SENSORS) == NAMES | {"lost_runs"}
    for name, sensor in SENSORS.items():
        off = sensor.default_status is dg.DefaultSensorStatus.STOPPED
        assert off == (name != "lost_runs")
        assert len(sensor.description) > 80


def test_new_data_is_trained_on_once(root, instance):
    found = tick("new_training_data", instance)
    assert "No dataset has been ingested yet" in found.skip_message
    ingested(root, "aaaaaaaaaaaa")
    first = tick("new_training_data", instance)
    assert (first.skip_message, first.cursor) == (
        "The dataset is aaaaaaaaaaaa, as before.",
        "aaaaaaaaaaaa",
    )
    ingested(root, "bbbbbbbbbbbb")
    twice = [tick("new_training_data", instance, first.cursor) for _ in range(2)]
    for found in twice:
        assert asked(found) == [("data-bbbbbbbbbbbb", "data-bbbbbbbb")]
        (request,) = found.run_requests
        assert request.tags["text2sql/why"] == (
            "the dataset is bbbbbbbbbbbb and no longer aaaaaaaaaaaa"
        )
        assert found.dynamic_partitions_requests[0].partition_keys == ["data-bbbbbbbb"]
    assert not tick("new_training_data", instance, twice[0].cursor).run_requests


def test_data_that_came_before_the_sensor_was_on_counts_against_the_champions(root, instance):
    ingested(root, "bbbbbbbbbbbb")
    champion(root, dataset="aaaaaaaaaaaa")
    assert asked(tick("new_training_data", instance)) == [("data-bbbbbbbbbbbb", "data-bbbbbbbb")]


def test_an_error_while_evaluating_is_told_and_the_next_tick_looks_again(
    root, instance, monkeypatch
):
    ingested(root, "bbbbbbbbbbbb")
    config = root / "retraining.yaml"
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    with pytest.raises(Exception, match=r"retraining\.yaml cannot be read") as told:
        tick("new_training_data", instance, "aaaaaaaaaaaa")
    assert isinstance(told.value.__cause__, Text2SqlError) or isinstance(told.value, Text2SqlError)
    config.write_text("ops: {grpo_policy: {config: {stall_seconds: many}}}")
    with pytest.raises(Exception, match="stall_seconds"):
        tick("new_training_data", instance, "aaaaaaaaaaaa")
    config.write_text(
        "ops: {grpo_policy: {config: {stall_seconds: 60}}, bird_archive: {config: {seed: 3}}}\n"
        "resources: {policy: {config: {base: http://127.0.0.1:9/v1}}}"
    )
    (request,) = tick("new_training_data", instance, "aaaaaaaaaaaa").run_requests
    assert request.run_config["ops"] == {"grpo_policy": {"config": {"stall_seconds": 60}}}
    assert request.run_config["resources"]["policy"]["config"]["base"] == "http://127.0.0.1:9/v1"


@dg.asset(partitions_def=RUNS)
def grpo_policy() -> dg.MaterializeResult:
    """Stand in for a training."""
    return dg.MaterializeResult(data_version=dg.DataVersion("v1"))


@dg.asset(partitions_def=RUNS, deps=[grpo_policy])
def dev_scores() -> None:
    """Stand in for an evaluation."""


def test_what_was_trained_is_evaluated_once_for_each_version(root, instance):
    instance.add_dynamic_partitions("training_run", ["june", "july", "may"])
    dg.materialize([grpo_policy], instance=instance, partition_key="may")
    start = tick("finished_training", instance)
    assert start.skip_message == "Watching for trainings from now on."
    idle = tick("finished_training", instance, start.cursor)
    assert (idle.skip_message, idle.cursor) == ("No training has finished since.", start.cursor)
    dg.materialize([grpo_policy], instance=instance, partition_key="june")
    first, again = (tick("finished_training", instance, start.cursor) for _ in range(2))
    assert asked(first) == asked(again) == [("june:v1", "june")]
    dg.materialize([grpo_policy, dev_scores], instance=instance, partition_key="july")
    own = tick("finished_training", instance, first.cursor)
    assert own.skip_message == "1 training has finished, each evaluated by its own run."
    assert tick("finished_training", instance, own.cursor).cursor == own.cursor
    assert asked(tick("finished_training", instance, start.cursor)) == [("june:v1", "june")]


def test_a_training_run_that_was_deleted_keeps_no_other_from_its_evaluation(root, instance):
    start = tick("finished_training", instance)
    for name in ("june", "july"):
        instance.add_dynamic_partitions("training_run", [name])
        dg.materialize([grpo_policy], instance=instance, partition_key=name)
    instance.delete_dynamic_partition("training_run", "june")
    found = tick("finished_training", instance, start.cursor)
    assert asked(found) == [("july:v1", "july")]
    instance.delete_dynamic_partition("training_run", "july")
    gone = tick("finished_training", instance, start.cursor)
    assert (gone.run_requests, gone.cursor) == ([], found.cursor)


def test_an_evaluation_that_is_asked_for_runs_with_the_config_of_the_file(
    root, instance, monkeypatch
):
    ingest(root)
    with answering(root, 0.4) as base, answering(root, 0.9, name="better") as better:
        config = {"resources": {"policy": {"config": {"base": base.url}}}}
        (root / "config.yaml").write_text(json.dumps(config))
        monkeypatch.setenv(CONFIG_VARIABLE, str(root / "config.yaml"))
        instance.add_dynamic_partitions("training_run", ["june"])
        train_elsewhere(root, "june", better.url)
        event = dg.AssetMaterialization("grpo_policy", partition="june")
        instance.report_runless_asset_event(event)
        (request,) = tick("finished_training", instance, "0").run_requests
        run = defs.resolve_job_def("evaluation").execute_in_process(
            instance=instance,
            partition_key=request.partition_key,
            run_config=request.run_config | {"loggers": QUIET},
            tags=request.tags,
        )
    assert run.success
    found = {one.asset_key.to_user_string() for one in run.get_asset_materialization_events()}
    assert found == {"dev_rollouts", "dev_scores", "model_card"}
    passed = {one.check_name: one.passed for one in run.get_asset_check_evaluations()}
    assert passed["accuracy_holds"] and passed["back_test"]
    assert not (root / "champion.json").exists()
    assert run.dagster_run.tags["text2sql/started_by"] == "finished_training"


def answered(store: ReportingStore, day: date, revision: str = "r1", **counts: int) -> None:
    """Store answers of a day: their statuses, and ``held`` and ``differs`` for verified ones."""
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    asked = [ReportQuestion(f"{day}-{n}", "?", "shop.sqlite") for n in range(len(kinds))]
    save(store, *asked)
    with store.writing() as connection:
        rows = [_answer(day, n, kind, revision) for n, kind in enumerate(kinds)]
        connection.execute(sa.insert(answers), rows)


def _answer(day: date, number: int, kind: str, revision: str) -> dict:
    verified = {"held": "match", "differs": "differs"}.get(kind)
    values = {"question_id": f"{day}-{number}", "policy_revision": revision, "verified": verified}
    values |= {"status": "answered" if verified else kind}
    values |= {"scheduled_at": datetime(day.year, day.month, day.day, tzinfo=UTC)}
    values |= {"candidates": 8, "minimum_share": 0.5, "tie": False, "question": "?"}
    values |= {"evidence": "", "database": "shop.sqlite", "attempts": 1, "prompt_tokens": 1}
    values |= {"completion_tokens": 1, "seconds": 1.0}
    return values | {"created_at": datetime.now(UTC), "updated_at": datetime.now(UTC)}


@pytest.fixture
def store(root):
    """The reporting tables of the root."""
    with ReportingStore(f"sqlite:///{root}/reporting.sqlite") as store:
        yield store


def test_a_decline_is_asked_about_and_told_once(root, instance, store, monkeypatch):
    now = date.fromisoformat(today())
    assert "no champion yet" in tick("declining_answers", instance).skip_message
    champion(root)
    answered(store, now, answered=12, no_consensus=7)
    quiet = tick("declining_answers", instance)
    assert quiet.skip_message.startswith("No decline in 7 days: Period(asked=19, answered=12")
    answered(store, now - timedelta(days=1), no_consensus=6, error=30)
    with ScriptedServer([replay({})]) as chat:
        monkeypatch.setenv(WEBHOOK_VARIABLE, chat.url)
        first = tick("declining_answers", instance)
        assert asked(first) == [(f"decline-r1-{now}", f"decline-{now}")]
        assert first.cursor == f"r1 {now}"
        waits = tick("declining_answers", instance, first.cursor)
        assert waits.skip_message == (
            "questions answered: 48% (12 of 25) in 7 days; the limit is 50%. "
            f"A training was already requested on {now}."
        )
        assert len(chat.requests) == 1
        assert "The answers decline" in chat.requests[0]["text"]
        earlier = f"r1 {now - timedelta(days=7)}"
        monkeypatch.delenv(WEBHOOK_VARIABLE)
        assert tick("declining_answers", instance, earlier).run_requests
    champion(root, revision="r2")
    assert "asked=0" in tick("declining_answers", instance).skip_message


def test_verified_answers_that_got_worse_are_a_decline(root, instance, store):
    now = date.fromisoformat(today())
    champion(root)
    answered(store, now - timedelta(days=10), "r0", held=20)
    answered(store, now, held=16, differs=4)
    (request,) = tick("declining_answers", instance).run_requests
    assert request.tags["text2sql/why"] == (
        "verified questions answered right: 80% (16 of 20) in 7 days, after 100% (20 of 20) before."
    )


@dg.op
def breaks() -> None:
    """Fail as a stage does."""
    raise Text2SqlError("No.")


@dg.job
def somebody_elses():
    """A job of another project on the same instance."""
    breaks()


def failed(instance: dg.DagsterInstance, cursor: str | None):
    """Let a run fail, for it has no reason to go back to another champion, and tick."""
    job = defs.resolve_job_def("champion_rollback")
    job.execute_in_process(instance=instance, raise_on_error=False)
    return tick("failed_runs", instance, cursor)


@pytest.fixture
def post(monkeypatch):
    """A mail server that the project is to use."""
    with MailServer() as post:
        monkeypatch.setenv(SMTP_VARIABLE, f"smtp+plain://127.0.0.1:{post.port}")
        monkeypatch.setenv(FROM_VARIABLE, "reports@example.org")
        monkeypatch.setenv(TO_VARIABLE, "ana@example.org")
        yield post


def test_people_are_told_of_a_failed_run_once(root, instance, post, monkeypatch):
    start = tick("failed_runs", instance)
    with ScriptedServer([replay({})]) as chat:
        monkeypatch.setenv(WEBHOOK_VARIABLE, chat.url)
        told = failed(instance, start.cursor)
        (reaction,) = told.dagster_run_reactions
        again = tick("failed_runs", instance, told.cursor)
        assert not again.dagster_run_reactions
    (message,), ((_, _, mail),) = chat.requests, post.mails
    run = reaction.dagster_run.run_id
    assert (message["dagster_run"], message["job"]) == (run, "champion_rollback")
    name, reason, place = message["text"].splitlines()
    assert name == "**`Run failed: champion_rollback`**"
    assert reason.lstrip("`").startswith(
        "champion_policy failed: Give a reason of 1 to 1,000 characters"
    )
    assert run in place
    assert mail["Subject"] == "Run failed: champion_rollback"
    assert run in mail.get_content() and "Give a reason" in mail.get_content()
    assert mail["Message-ID"] == f"<notice-{run}@example.org>"


def test_a_message_that_is_not_taken_fails_nothing(root, instance, post, monkeypatch):
    start = tick("failed_runs", instance)
    with ScriptedServer([fails(400, "no")]) as chat:
        monkeypatch.setenv(WEBHOOK_VARIABLE, chat.url)
        found = failed(instance, start.cursor)
    assert len(post.mails) == 1, "the other channel has it"
    assert "answered with status 400; mail: sent" in found.skip_message
    monkeypatch.setenv(SMTP_VARIABLE, "mail.example.org")
    found = failed(instance, found.cursor)
    assert found.skip_message.startswith("No notification sent: the mail server must be")
    for variable in (SMTP_VARIABLE, WEBHOOK_VARIABLE):
        monkeypatch.delenv(variable)
    found = failed(instance, found.cursor)
    assert found.skip_message.startswith("No notification sent: no webhook or mail")
    somebody_elses.execute_in_process(instance=instance, raise_on_error=False)
    found = tick("failed_runs", instance, found.cursor)
    assert found.skip_message == "somebody_elses is no job of this project."


def test_what_a_notice_says_is_no_markup():
    with ScriptedServer([replay({})]) as chat:
        notice = Notice("A [link](http://x.example)", "- <!here> `x` *b*\n@all", "k", {"a": "b"})
        Webhook(chat.url).tell(notice)
    assert chat.requests[0]["text"].splitlines() == [
        "**`A [link](http://x.example)`**",
        "``- <!here> `x` *b*``",
        "`@all`",
    ]
    assert chat.requests[0]["a"] == "b"


def made(
    instance: dg.DagsterInstance, *names: str, partition: str | None = None, passed: bool = True
) -> None:
    """Record that assets were materialized, and whether their blocking checks passed."""
    graph = defs.resolve_asset_graph()
    for name in names:
        event = dg.AssetMaterialization(name, partition=partition)
        instance.report_runless_asset_event(event)
        for check in graph.get_check_keys_for_assets({dg.AssetKey(name)}):
            if graph.get(check).blocking:
                evaluation = dg.AssetCheckEvaluation(
                    asset_key=check.asset_key, check_name=check.name, passed=passed, metadata={}
                )
                instance.report_runless_asset_event(evaluation)


@pytest.fixture
def in_memory():
    """An instance that keeps nothing on disk: for many events."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def test_conditions_follow_what_an_asset_was_made_from(root, in_memory):
    instance = in_memory
    instance.add_dynamic_partitions("training_run", ["june", "july"])
    made(instance, "bird_questions", "bird_databases", "gold_results", "known_issues")
    made(instance, "reward_strength")

    def evaluated(cursor=None):
        found = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
        wanted = {
            (key.to_user_string(), partition)
            for result in found.results
            for key in [result.key]
            for partition in found.get_requested_partitions(key)
        }
        return wanted, found.cursor

    _, cursor = evaluated()
    made(instance, "grpo_policy", partition="june")
    wanted, cursor = evaluated(cursor)
    assert wanted == {(name, "june") for name in ("dev_rollouts", "dev_scores", "model_card")}
    made(instance, "dev_rollouts", "dev_scores", "model_card", partition="june")
    evaluated(cursor)
    made(instance, "known_issues", "gold_results")
    wanted, cursor = evaluated(cursor)
    assert not wanted, "a new list of known issues evaluates no training run"
    made(instance, "bird_questions", passed=False)
    assert evaluated(cursor)[0] == set(), "a blocking check failed"
    made(instance, "bird_questions")
    wanted, cursor = evaluated(cursor)
    assert {name for name, _ in wanted} == {"gold_results"}
    assert evaluated(cursor)[0] == set(), "once is enough"


@pytest.mark.parametrize(
    "content",
    [b"ops: \xff", b"ops: {a: 2026-13-45}", b"[" * 5000, b"ops: {", b"- ops", b"ops: 3"],
    ids=["Latin-1", "no day", "nested", "cut", "a list", "a number"],
)
def test_a_file_that_is_no_run_config_is_named(tmp_path, content):
    file = tmp_path / "run.yaml"
    file.write_bytes(content)
    with pytest.raises(Text2SqlError, match=r"run config .*run\.yaml ") as told:
        read_run_config(file)
    assert "\n" not in str(told.value) and "<unicode string>" not in str(told.value)
