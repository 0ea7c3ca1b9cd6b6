"""What Dagster loads, when it runs, and the home that it runs in."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from pipelines.definitions import defs
from pipelines.partitions import add_training_run, today
from text2sql.common.provenance import code_version, file_version, fingerprint
from text2sql.errors import Text2SqlError

REPO = Path(__file__).resolve().parents[2]
RUN, DAY = "training_run", "day"
GRAPH = {
    "bird_archive": ([], None),
    "bird_questions": (["bird_archive"], None),
    "bird_databases": (["bird_archive"], None),
    "gold_results": (["bird_databases", "bird_questions"], None),
    "reward_strength": (["gold_results"], None),
    "known_issues": (["gold_results"], None),
    "base_rollouts": (["gold_results"], None),
    "training_prompts": (["base_rollouts", "reward_strength"], None),
    "grpo_policy": (["training_prompts"], RUN),
    "dev_rollouts": (["gold_results", "grpo_policy"], RUN),
    "dev_scores": (["dev_rollouts", "known_issues", "reward_strength"], RUN),
    "model_card": (["dev_scores"], RUN),
    "champion_policy": (["model_card"], None),
    "report_questions": ([], None),
    "report_answers": (["champion_policy", "report_questions"], DAY),
    "held_out_rollouts": (["champion_policy", "gold_results"], None),
    "held_out_scores": (["held_out_rollouts"], None),
}
BLOCKING = {"questions_valid", "db_ids_resolve", "databases_sound", "gold_runs"} | {
    "prompts_can_teach",
    "accuracy_holds",
    "writes_bounded",
    "evaluation_complete",
    "back_test",
}


def partitioned_by(definition: dg.PartitionsDefinition | None) -> str | None:
    """Name a partitions definition."""
    if isinstance(definition, dg.DailyPartitionsDefinition):
        return DAY
    return definition.name if definition else None


def test_everything_that_dagster_loads_is_named():
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    assert {job for job in repository.job_names if not job.startswith("__")} == {
        *("lifecycle", "training", "daily_answers", "remove_old_runs"),
        *("evaluation", "retraining", "champion_rollback"),
    }
    sensors = {sensor.name: sensor.default_status.value for sensor in repository.sensor_defs}
    off = ("conditions", "new_training_data", "finished_training", "declining_answers")
    assert sensors == dict.fromkeys((*off, "failed_runs"), "STOPPED") | {"lost_runs": "RUNNING"}
    schedules = {one.name: one.default_status.value for one in repository.schedule_defs}
    assert schedules == dict.fromkeys(
        ("daily_answers_schedule", "remove_old_runs_schedule"), "STOPPED"
    )


def test_definitions_that_contradict_each_other_are_refused():
    """The check above can fail: a job whose assets are gone."""
    without = dg.Definitions(assets=[], jobs=defs.jobs)
    with pytest.raises(dg.DagsterInvalidDefinitionError):
        dg.Definitions.validate_loadable(without)


def test_asset_graph():
    graph = defs.resolve_asset_graph()
    found = {
        key.to_user_string(): (
            sorted(parent.to_user_string() for parent in graph.get(key).parent_keys),
            partitioned_by(graph.get(key).partitions_def),
        )
        for key in graph.get_all_asset_keys()
    }
    assert found == GRAPH


def test_every_asset_is_described():
    for spec in defs.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.code_version, spec.key
        assert spec.group_name != "default", spec.key


def test_blocking_checks():
    graph = defs.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if graph.get(key).blocking}
    assert blocking == BLOCKING


def test_jobs_cover_everything_once():
    lifecycle, daily = map(defs.resolve_job_def, ("lifecycle", "daily_answers"))
    selected = {key.to_user_string() for key in lifecycle.asset_layer.executable_asset_keys}
    assert selected == set(GRAPH) - {"report_answers", "held_out_rollouts", "held_out_scores"}
    assert partitioned_by(lifecycle.partitions_def) == RUN
    assert partitioned_by(daily.partitions_def) == DAY


def test_gpu_and_sampling_have_pools():
    graph = defs.resolve_asset_graph()
    assert graph.get(dg.AssetKey("grpo_policy")).pools == {"gpu"}
    assert graph.get(dg.AssetKey("report_answers")).pools == {"sampling"}
    for name in ("base_rollouts", "dev_rollouts"):
        assert "sampling" in graph.get(dg.AssetKey(name)).pools


def test_schedule_ticks_once_a_day_and_asks_for_today():
    schedule = defs.resolve_schedule_def("daily_answers_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert schedule.execution_timezone == "UTC"
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=datetime(2026, 3, 29, 6, tzinfo=UTC),
            repository_def=defs.get_repository_def(),
        )
        (request,) = schedule.evaluate_tick(context).run_requests
    assert (request.run_key, request.partition_key) == ("2026-03-29", "2026-03-29")


_TICKS = """
import json
from datetime import datetime
import dagster as dg
from dagster._utils.schedules import schedule_execution_time_iterator
from pipelines.definitions import defs

schedule = defs.resolve_schedule_def("daily_answers_schedule")
start = datetime.fromisoformat("2026-10-24T00:00+02:00")
times = schedule_execution_time_iterator(
    start.timestamp(), schedule.cron_schedule, schedule.execution_timezone
)
ticks, found = iter(times), []
with dg.DagsterInstance.ephemeral() as instance:
    for _ in range(3):
        tick = next(ticks)
        context = dg.build_schedule_context(
            instance, scheduled_execution_time=tick, repository_def=defs.get_repository_def()
        )
        [request] = schedule.evaluate_tick(context).run_requests
        found.append([tick.isoformat(), request.run_key, request.partition_key])
print(json.dumps(found))
"""


def in_zone(zone: str) -> subprocess.CompletedProcess[str]:
    """Load the definitions in a process with this time zone; it prints ticks of the schedule."""
    return subprocess.run(
        [sys.executable, "-c", _TICKS],
        cwd=REPO,
        env=os.environ | {"TEXT2SQL_TIME_ZONE": zone},
        capture_output=True,
        text=True,
    )


def test_schedule_ticks_at_six_by_the_clock_before_and_after_a_change():
    assert json.loads(in_zone("Europe/Berlin").stdout) == [
        ["2026-10-24T06:00:00+02:00", "2026-10-24", "2026-10-24"],
        ["2026-10-25T06:00:00+01:00", "2026-10-25", "2026-10-25"],
        ["2026-10-26T06:00:00+01:00", "2026-10-26", "2026-10-26"],
    ]


def test_a_time_zone_that_is_none_is_named():
    done = in_zone("Mars/Phobos")
    assert "TEXT2SQL_TIME_ZONE is 'Mars/Phobos', which is not a time zone" in done.stderr


def test_lifecycle_without_a_training_run_stops_before_sampling(root):
    job = defs.resolve_job_def("lifecycle")
    selection = [dg.AssetKey(name) for name in ("base_rollouts", "training_prompts", "grpo_policy")]
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(
            instance=instance, raise_on_error=False, asset_selection=selection
        )
    (failure,) = result.get_step_failure_events()
    assert failure.step_key == "base_rollouts.plan_base_rollouts"
    assert "has no training run: choose one" in failure.step_failure_data.error.cause.message


def test_validate_command(root):
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        cwd=REPO,
        env=os.environ | {"DAGSTER_HOME": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_training_run_names():
    with dg.DagsterInstance.ephemeral() as instance:
        add_training_run(instance, "demo-1.b_2")
        add_training_run(instance, "demo-1.b_2")
        assert instance.get_dynamic_partitions(RUN) == ["demo-1.b_2"]
        for name in ("", "-x", "a/b", "a b", "x" * 65, ".."):
            with pytest.raises(Text2SqlError, match="cannot name a training run"):
                add_training_run(instance, name)


def test_today_is_a_partition():
    days = defs.resolve_job_def("daily_answers").partitions_def
    assert days.get_last_partition_key() == today()


def test_versions_follow_content(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1")
    second.write_text("2")
    assert file_version(first, second) != file_version(second, first)
    assert fingerprint(a=1, b=2) == fingerprint(b=2, a=1) != fingerprint(a=1, b=3)
    assert len(code_version("text2sql/judge/verdicts.py")) == 16
    assert code_version("text2sql/policy") != code_version("text2sql/sandbox")


def test_run_config_of_the_demo_is_valid():
    import yaml

    config = yaml.safe_load((REPO / "pipelines" / "demo.yaml").read_text())
    assert dg.validate_run_config(defs.resolve_job_def("lifecycle"), config)
    assert json.dumps(config)
