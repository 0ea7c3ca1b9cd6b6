"""Dagster's home: made, tidied, with the pools set, and without runs that died."""

import json
import os
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from assets.common.pools import POOL_VARIABLE
from pipelines import materialize, pools
from pipelines.code_links import URL_VARIABLE
from pipelines.executors import STEPS_VARIABLE
from pipelines.home import CONFIG_VARIABLE, existing_instance, open_instance, prepare_home
from pipelines.pools import SAMPLING_VARIABLE
from resources.automation import ZONE_VARIABLE
from resources.step_pods import EXECUTOR_VARIABLE, TRAINING_VARIABLE
from text2sql.errors import Text2SqlError

REPO = Path(__file__).resolve().parents[2]


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
        assert type(instance.run_launcher) is dg.DefaultRunLauncher


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
        runs = [subprocess.Popen(job, **quiet)]
        # Not at the same instant: Dagster's claim of a slot in SQLite is not atomic.
        time.sleep(0.25)
        runs.append(subprocess.Popen(job, **quiet))
        assert [run.wait(120) for run in runs] == [0, 0]
    uses = sorted(map(json.loads, (root / "uses.jsonl").read_text().splitlines()))
    assert len(uses) == 4
    assert all(end <= begin for (_, end), (begin, _) in pairwise(uses)), uses


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


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (POOL_VARIABLE, "use sampling or gpu."),
        (SAMPLING_VARIABLE, "give the number of steps that may sample at once, from 1 to 1000."),
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
        (["report_answers", "--partition", "2020-01-01"], "report_answers needs a day from "),
        (["report_answers"], ": give --partition."),
        (["grpo_policy", "--partition", "july"], "--partition july is not one."),
        (
            ["grpo_policy,report_answers", "--partition", "july"],
            "grpo_policy needs a training run, ",
        ),
        (["nosuch"], "No asset matches --select nosuch: "),
        (["report_questions", "--config-json", "{"], "--config-json is not an object in JSON"),
        (
            ["report_questions", "--config-json", '{"ops": {"report_questions": {"x": 1}}}'],
            "The run config is wrong: ops.report_questions has no 'x'.",
        ),
    ],
)
def test_a_wrong_selection_is_named(root, words, told):
    with pytest.raises(Text2SqlError) as refused:
        materialize.main(["--select", *words])
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_an_error_is_one_sentence_without_a_stack_trace(root, tmp_path):
    wrong = {"ops": {"bird_archive": {"config": {"source": str(tmp_path / "nowhere")}}}}
    words = ["--select", "bird_archive", "--config-json", json.dumps(wrong)]
    command = [sys.executable, "-m", "pipelines.materialize", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "nowhere" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "the following arguments are required: --select"),
        (["--select", "report_questions", "--nosuch", "1"], "unrecognized arguments: --nosuch 1"),
    ],
)
def test_a_wrong_option_shows_the_usage(root, capsys, words, sentence):
    with pytest.raises(SystemExit, match="2"):
        materialize.main(words)
    assert sentence in capsys.readouterr().err
    assert not root.exists(), "nothing was opened"
