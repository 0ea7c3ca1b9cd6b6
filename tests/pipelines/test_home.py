"""Dagster's home: made, tidied, with the pools set, and without runs that died."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.launcher.base import LaunchRunContext, WorkerStatus

from assets.common.partitions import ZONE_VARIABLE
from assets.common.pools import POOL_VARIABLE
from pipelines import materialize, pools
from pipelines.home import CONFIG_VARIABLE, existing_instance, open_instance, prepare_home
from pipelines.pools import SAMPLING_VARIABLE
from pipelines.runs.code_links import URL_VARIABLE
from pipelines.runs.executors import STEPS_VARIABLE
from pipelines.runs.launcher import LocalRunLauncher
from pipelines.runs.orphans import HOST_TAG, OWNER_TAG, PROCESS_TAG, SERVER_TAG, is_orphan, owner
from resources.step_pods import EXECUTOR_VARIABLE, TRAINING_VARIABLE
from text2sql.errors import Text2SqlError

REPO = Path(__file__).resolve().parents[2]
LOG = logging.getLogger("test")


def limits(instance: dg.DagsterInstance) -> dict[str, int]:
    """Return the pools that have a limit."""
    return {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}


def test_home_is_made_and_kept(root):
    home = prepare_home()
    assert home == root / "dagster_home"
    assert (home / "dagster.yaml").resolve() == REPO / "dagster.yaml"
    (home / "dagster.yaml").unlink()
    (home / "dagster.yaml").write_text("an old one")
    prepare_home()
    assert (home / "dagster.yaml").resolve() == REPO / "dagster.yaml"
    with open_instance() as instance:
        assert not instance.telemetry_enabled
        assert instance.run_monitoring_enabled
        assert instance.run_retries_enabled and instance.run_retries_max_retries == 0
        assert isinstance(instance.run_launcher, LocalRunLauncher)


def test_an_instance_that_is_there_is_used_as_it_is(root, tmp_path, monkeypatch):
    assert existing_instance(root) is None
    other = tmp_path / "other"
    other.mkdir()
    (other / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(other))
    assert existing_instance(root) is None, "it may be of another project"
    with dg.DagsterInstance.get() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("bird_archive"))
    with existing_instance(root) as found:
        assert found.root_directory == str(other)
    assert (other / "dagster.yaml").read_text() == "" and not root.exists()


def test_another_configuration_of_the_instance_is_used_where_it_is_named(root, monkeypatch):
    monkeypatch.setenv(CONFIG_VARIABLE, "deploy/postgres/dagster.yaml")
    assert (prepare_home() / "dagster.yaml").resolve() == REPO / "deploy/postgres/dagster.yaml"
    monkeypatch.setenv(CONFIG_VARIABLE, "no/such.yaml")
    with pytest.raises(Text2SqlError, match=r"TEXT2SQL_DAGSTER_YAML names .*no/such.yaml"):
        prepare_home()


def test_variables_that_a_configuration_lacks_are_named(root, monkeypatch):
    monkeypatch.setenv(CONFIG_VARIABLE, "deploy/postgres/dagster.yaml")
    for name in ("HOST", "PORT", "DB", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"DAGSTER_PG_{name}", raising=False)
    monkeypatch.setenv("DAGSTER_PG_HOST", "db")
    with pytest.raises(Text2SqlError) as raised:
        open_instance()
    sentence = "needs environment variables that are not set: DAGSTER_PG_"
    assert sentence in str(raised.value)
    assert str(raised.value).endswith("DAGSTER_PG_USERNAME.")


def test_root_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DAGSTER_HOME", "")
    with pytest.raises(Text2SqlError, match=r"artifact root cannot be written: .*file"):
        prepare_home(tmp_path / "file" / "root")


def test_sampling_pool_is_as_large_as_the_machine_until_a_person_says_otherwise(root, monkeypatch):
    with open_instance() as instance:
        assert limits(instance)["sampling"] == os.cpu_count()
        instance.event_log_storage.set_concurrency_slots("sampling", 7)
    with open_instance() as instance:
        assert limits(instance)["sampling"] == 7
    monkeypatch.setenv(SAMPLING_VARIABLE, "3")
    with open_instance() as instance:
        assert limits(instance)["sampling"] == 3
    monkeypatch.setenv(SAMPLING_VARIABLE, "many")
    with pytest.raises(Text2SqlError, match="TEXT2SQL_SAMPLING_SLOTS is 'many'"):
        open_instance()


def test_a_deployment_sets_the_pools_of_its_instance(root, monkeypatch, capsys):
    prepare_home()
    monkeypatch.setenv(SAMPLING_VARIABLE, "12")
    pools.main()
    assert capsys.readouterr().out == "pool gpu: 1 at once\npool sampling: 12 at once\n"


def test_sampling_may_share_the_pool_of_the_gpus(root, monkeypatch):
    monkeypatch.setenv(POOL_VARIABLE, "gpu")
    with open_instance() as instance:
        assert limits(instance) == {"gpu": 1}
    monkeypatch.setenv(POOL_VARIABLE, "tpu")
    with pytest.raises(Text2SqlError, match="TEXT2SQL_SAMPLING_POOL is 'tpu': use sampling or gpu"):
        open_instance()


def test_one_step_at_a_time_uses_the_gpu_in_a_fresh_instance(root):
    with open_instance() as instance:
        assert limits(instance)["gpu"] == 1
        job = [
            sys.executable,
            "-m",
            "dagster",
            "job",
            "execute",
            "-f",
            "tests/resources/gpu_job.py",
        ]
        quiet = {"cwd": REPO, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        runs = [subprocess.Popen(job, **quiet) for _ in range(2)]
        assert [run.wait(120) for run in runs] == [0, 0]
    uses = sorted(map(json.loads, (root / "uses.jsonl").read_text().splitlines()))
    assert len(uses) == 4
    assert all(end <= begin for (_, end), (begin, _) in pairwise(uses))


@dg.job
def nothing():
    """A job without steps."""


@pytest.mark.parametrize("ended", [True, False])
def test_what_a_cancelled_run_holds_of_a_pool_is_free_for_the_next(root, ended):
    """A step that had to be killed has not given its place back."""
    with open_instance() as instance:
        run = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED)
        instance.event_log_storage.claim_concurrency_slot("gpu", run.run_id, "grpo_policy")
        if ended:
            instance.report_run_canceled(run)
    with open_instance() as instance:
        held = instance.event_log_storage.get_concurrency_info("gpu")
        assert held.active_slot_count == (0 if ended else 1)


def test_orphaned_run_is_ended_and_others_are_left(root, tmp_path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "alive"))
    server.listen()
    here = {HOST_TAG: socket.gethostname()}
    tags = {
        "mine": {OWNER_TAG: owner()},
        "killed": {OWNER_TAG: owner() + "0"},
        "killed, unfollowed": {PROCESS_TAG: owner() + "0"},
        "elsewhere": {OWNER_TAG: "elsewhere:1:2"},
        "launched": here | {SERVER_TAG: f'{{"socket": "{tmp_path}/alive"}}'},
        "server gone": here | {SERVER_TAG: f'{{"socket": "{tmp_path}/gone"}}'},
        "server elsewhere": {HOST_TAG: "elsewhere", SERVER_TAG: f'{{"socket": "{tmp_path}/gone"}}'},
        "unknown": {},
    }
    with server, open_instance() as instance:
        started = dg.DagsterRunStatus.STARTED
        runs = {
            name: instance.create_run_for_job(nothing, status=started, tags=own)
            for name, own in tags.items()
        }
        health = {
            name: instance.run_launcher.check_run_worker_health(run).status
            for name, run in runs.items()
        }
        with open_instance() as again:
            status = {name: again.get_run_by_id(run.run_id).status for name, run in runs.items()}
    ended = {name for name, found in status.items() if found is dg.DagsterRunStatus.FAILURE}
    assert ended == {"killed", "killed, unfollowed", "server gone"}
    assert {name for name, found in health.items() if found is not WorkerStatus.RUNNING} == ended


@pytest.mark.parametrize("tag", [OWNER_TAG, PROCESS_TAG])
def test_a_run_that_repeats_one_of_the_command_line_belongs_to_who_launched_it(root, tag):
    """Dagster gives it the tags of that run, whose process is gone."""
    with open_instance() as instance:
        first = instance.create_run_for_job(nothing, tags={tag: owner() + "0"})
        again = instance.create_run_for_job(nothing, tags=dict(first.tags))
        with pytest.raises(dg.DagsterInvariantViolationError, match="requires a workspace"):
            instance.run_launcher.launch_run(LaunchRunContext(again, workspace=None))
        launched = instance.get_run_by_id(again.run_id)
        assert launched.tags[HOST_TAG] == socket.gethostname()
        assert is_orphan(first) and not is_orphan(launched)
        assert instance.run_launcher.terminate(first.run_id)
        assert instance.get_run_by_id(first.run_id).status is dg.DagsterRunStatus.CANCELED


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (POOL_VARIABLE, "use sampling or gpu."),
        (SAMPLING_VARIABLE, "give how many steps may sample at once, from 1 to 1000."),
        (TRAINING_VARIABLE, "give a number of GPUs."),
        (STEPS_VARIABLE, "give a whole number from 1 on."),
        (EXECUTOR_VARIABLE, "use one of processes, kubernetes, in_process."),
        (URL_VARIABLE, "it must be a repository on GitHub or GitLab"),
    ],
)
def test_a_variable_that_makes_no_sense_is_told_before_dagster_is_opened(
    root, monkeypatch, name, told
):
    monkeypatch.setenv(name, "-1")
    with pytest.raises(Text2SqlError, match=f"^{name} is '-1': {re.escape(told)}"):
        open_instance()
    assert not root.exists()


@pytest.mark.parametrize(
    "program",
    [
        "pipelines.home",
        "pipelines.ui",
        "pipelines.materialize",
        "dagster asset list -m pipelines.definitions",
    ],
)
def test_a_program_tells_a_wrong_variable_in_a_sentence(root, program):
    named = os.environ | {ZONE_VARIABLE: "Mars"}
    command = [sys.executable, "-m", *program.split()]
    done = subprocess.run(command, env=named, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: TEXT2SQL_TIME_ZONE is 'Mars', which is not a time zone; use a name such as "
        "Europe/Berlin\n"
    )


def test_what_was_made_is_told(root):
    command = [sys.executable, "-m", "pipelines.materialize", "--select", "report_questions"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Done. ") and done.stdout.count("\n") == 1
    assert (root / "reporting.sqlite").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["report_answers", "--partition", "2020-01-01"], "2020-01-01"),
        (["nosuch"], "There is no asset 'nosuch': "),
    ],
)
def test_assets_are_made_without_dagsters_word_on_its_command(root, words, told):
    command = [sys.executable, "-m", "pipelines.materialize", "--select", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and told in done.stderr
    assert len(done.stderr.splitlines()) == 1, "nor that its command has a successor"
    assert (root / "dagster_home" / "dagster.yaml").exists()


def test_materialize_says_what_it_takes(root, capsys):
    materialize.main(["--help"])
    told = capsys.readouterr().out
    assert told.startswith("Usage: python -m pipelines.materialize --select ASSETS")
    with pytest.raises(Text2SqlError, match="Say which assets to make"):
        materialize.main(["-c", "own.yaml"])
    assert not root.exists(), "nothing was opened"


def test_run_of_a_killed_command_is_ended_while_the_daemon_runs(root):
    """What run monitoring does every half minute, done once by its own function."""
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import EmptyWorkspaceTarget
    from dagster._daemon.monitoring import execute_run_monitoring_iteration

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with open_instance() as instance:
        mark = owner().split(":")
        stat = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        tag = f"{mark[0]}:{child.pid}:{stat}"
        started = dg.DagsterRunStatus.STARTED
        run = instance.create_run_for_job(nothing, status=started, tags={OWNER_TAG: tag})
        with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as context:
            list(execute_run_monitoring_iteration(context, LOG))
            assert instance.get_run_by_id(run.run_id).status is started
            child.send_signal(signal.SIGKILL)
            child.wait()
            list(execute_run_monitoring_iteration(context, LOG))
        assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE
