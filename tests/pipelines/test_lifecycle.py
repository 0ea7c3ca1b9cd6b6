"""The life of a model in real Dagster runs: sampled, killed, resumed, trained, judged, promoted."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
import yaml

from pipelines import lifecycle
from pipelines.definitions import defs
from pipelines.executors import STEPS_VARIABLE
from pipelines.home import open_instance
from pipelines.partitions import add_training_run
from pipelines.runs.launch import CommandRuns
from resources.policy import PolicyResource
from tests.support.lifecycle_tools import CORPUS, SIZES, answering, processes_below
from tests.support.waiting import wait_until
from text2sql.common.json_files import write_json
from text2sql.errors import Text2SqlError

REPO = Path(__file__).resolve().parents[2]
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}
FROM_EVALUATION = ["dev_rollouts", "dev_scores", "model_card", "champion_policy"]


def lifecycle_config(folder: Path, base: str, **ops) -> Path:
    """Write a run config for a lifecycle on a small corpus."""
    config = {"ops": CORPUS | ops, "resources": {"policy": {"config": {"base": base}}}}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def run_assets(root: Path, names: list[str], base: str, partition: str, **ops):
    """Run some of the lifecycle's assets in this process."""
    with dg.DagsterInstance.ephemeral() as instance:
        add_training_run(instance, partition)
        return defs.resolve_job_def("lifecycle").execute_in_process(
            instance=instance,
            partition_key=partition,
            asset_selection=[dg.AssetKey(name) for name in names],
            raise_on_error=False,
            run_config={
                "ops": ops,
                "loggers": QUIET,
                "resources": {"policy": {"config": {"base": base}}},
            },
        )


def metadata_of(result, name: str) -> dict:
    """Return the metadata of an asset that a run materialized."""
    for event in result.get_asset_materialization_events():
        if event.asset_key == dg.AssetKey(name):
            return {key: value.value for key, value in event.materialization.metadata.items()}
    raise AssertionError(f"{name} was not materialized")


def test_killed_run_leaves_nothing_and_its_rollouts_are_not_asked_again(root, tmp_path):
    with answering(root, 0.5, seconds=0.05) as server:
        sampling = {"config": {"shards": 2, "concurrency": 2}}
        few = {"config": {"minimum_prompts": 8}}
        config = lifecycle_config(
            tmp_path, server.url, base_rollouts=sampling, training_prompts=few
        )
        command = [sys.executable, "-m", "pipelines.lifecycle", "--config", str(config)]
        with (tmp_path / "first.txt").open("w") as output:
            first = subprocess.Popen(command, cwd=REPO, stdout=output, stderr=output)
        wait_until(lambda: len(server.requests) >= 40 or first.poll() is not None, 300)
        assert len(processes_below(root)) > 4
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert wait_until(lambda: not processes_below(root))
        with open_instance() as instance:
            (run,) = instance.get_runs()
            assert run.status is dg.DagsterRunStatus.FAILURE
            with (
                CommandRuns(instance, tmp_path / "second.log") as runs,
                pytest.raises(Text2SqlError, match=r"grpo_policy failed: .* is a server or on"),
            ):
                runs.run("lifecycle", "demo", yaml.safe_load(config.read_text()))
    stores = (root / "rollouts").glob("train-sampled-*/*.jsonl")
    rollouts = [json.loads(line) for store in stores for line in store.open()]
    assert len({(row["key"], row["sample"]) for row in rollouts}) == len(rollouts) == 16 * 8
    assert 16 * 8 <= len(server.requests) <= 16 * 8 + 4
    prompts = (root / "prompts" / "prompts.jsonl").read_text().splitlines()
    assert len(prompts) == json.loads((root / "prompts" / "about.json").read_text())["kept"] > 0


def test_a_run_of_the_command_line_is_cancelled_there_or_in_the_interface(root, tmp_path):
    """It is not one that failed, which Dagster's daemon might repeat."""
    with answering(root, 0.5, seconds=0.2) as server:
        config = lifecycle_config(tmp_path, server.url)
        command = [sys.executable, "-m", "pipelines.lifecycle", "--config", str(config)]
        for number, ends in ((1, signal.SIGTERM), (2, None)):
            running = subprocess.Popen(command, cwd=REPO, stderr=subprocess.PIPE, text=True)
            with open_instance() as instance:
                begun = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
                assert wait_until(partial(instance.get_runs, begun), 120)
                run = instance.get_runs(limit=1)[0].run_id
                if ends is None:
                    assert instance.run_launcher.terminate(run)
                else:
                    running.send_signal(ends)
                _, said = running.communicate(timeout=60)
                ended = instance.get_run_by_id(run)
                assert len(instance.get_runs()) == number
                assert ended.tags["dagster/code_location"] == "pipelines.definitions"
                assert ended.tags["text2sql/exclusive"] == "lifecycle"
            assert ended.status is dg.DagsterRunStatus.CANCELED
            assert "dagster/will_retry" not in ended.tags
            told = {143: "stopped; run it again", 1: "error: The run was cancelled in Dagster"}
            assert said.startswith(told[running.returncode])
    assert wait_until(lambda: not processes_below(root))


def test_no_policy_server_is_one_sentence(root, tmp_path):
    config = lifecycle_config(tmp_path, "http://127.0.0.1:9/v1")
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.lifecycle", "--config", str(config)],
        cwd=REPO,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (sentence,) = [line for line in done.stderr.splitlines() if line]
    assert "base_rollouts failed: No policy server answers at http://127.0.0.1:9/v1" in sentence
    assert "gold queries" in done.stdout
    assert not list((root / "rollouts").glob("*"))


def test_a_project_that_does_not_load_ends_with_its_own_sentence(root, tmp_path, monkeypatch):
    with open_instance() as instance:
        monkeypatch.setenv(STEPS_VARIABLE, "many")  # as if the variable had changed meanwhile
        with (
            CommandRuns(instance, tmp_path / "log") as runs,
            pytest.raises(Text2SqlError) as refused,
        ):
            runs.run("daily_answers", "2026-03-02", {})
    assert "could not begin the run: " in str(refused.value)
    assert "TEXT2SQL_STEPS is 'many': give a whole" in str(refused.value)


def ingest(root: Path) -> None:
    """Ingest the small corpus."""
    names = ["bird_archive", "bird_questions", "bird_databases", "gold_results"]
    assert run_assets(root, names, "pocket", "demo", **CORPUS).success


def train_elsewhere(root: Path, run: str, policy: str) -> None:
    """Note a policy that was trained outside: what grpo_policy would have recorded."""
    record = {"policy": policy, "policy_revision": PolicyResource().revision(policy)}
    record |= {"base": "scripted", "base_revision": "b", "prompts": 9, "seconds": 1.5}
    write_json(root / "training" / run / "training.json", record | {"settings": {"steps": 3}})


def test_evaluation_samples_the_base_once_and_the_gate_stops_a_worse_policy(root, monkeypatch):
    ingest(root)
    monkeypatch.chdir(root)
    with (
        answering(root, 0.4) as base,
        answering(root, 0.9, name="better") as better,
        answering(root, -1, name="worse") as worse,
    ):
        for run, server in (("good", better), ("bad", worse)):
            train_elsewhere(root, run, server.url)
        good = run_assets(root, FROM_EVALUATION, base.url, "good")
        assert good.success
        assert metadata_of(good, "dev_rollouts")["new"] == 12 * 10 * 2
        assert len(base.requests) == len(better.requests) == 12 * 10
        again = run_assets(root, FROM_EVALUATION, base.url, "good")
        assert metadata_of(again, "dev_rollouts")["new"] == 0
        bad = run_assets(root, FROM_EVALUATION, base.url, "bad")
        assert metadata_of(bad, "dev_rollouts")["new"] == 12 * 10
        assert len(base.requests) == 12 * 10
    champion = json.loads((root / "champion.json").read_text())
    assert (champion["training_run"], champion["number"]) == ("good", 1)
    assert not bad.success
    failed = {one.check_name: one for one in bad.get_asset_check_evaluations() if not one.passed}
    assert set(failed) == {"accuracy_holds", "accuracy_as_before"}
    assert "Worse beyond noise than the champion good" in failed["accuracy_holds"].description
    for run in ("good", "bad"):
        card = (root / "evaluation" / run / "README.md").read_text()
        assert "pass@8" in card and "worse" not in card
    for event in [*good.get_asset_materialization_events()]:
        assert len(dg.serialize_value(event.materialization)) < 64_000


def has_pocket_weights() -> bool:
    """Say whether the shipped policy is there."""
    return any(PolicyResource().directory().glob("*.safetensors"))


@pytest.mark.slow
@pytest.mark.skipif(not has_pocket_weights(), reason="the pocket policy's weights are not here")
def test_whole_life_with_the_pocket_policy(root, tmp_path, capsys):
    config = yaml.safe_load(lifecycle.CONFIG.read_text())
    trl = {"steps": 2, "groups_per_step": 4, "group_size": 4, "save_every": 1}
    config["ops"] |= {"bird_archive": {"config": {"sizes": SIZES | {"train": 48}}}}
    config["ops"]["grpo_policy"]["config"]["trainer"]["trl"] = trl
    config["ops"]["training_prompts"]["config"] = {"minimum_prompts": 4}
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(config))
    lifecycle.main(["--config", str(path)])
    shown = capsys.readouterr().out
    summary = json.loads((root / "summary.json").read_text())
    for label in lifecycle.LABELS.values():
        assert label in shown
    assert "vote@8" in shown and "make ui" in shown
    assert summary["prompts"]["kept"] >= 4
    assert summary["answers"]["questions"] > 0
    assert summary["champion"]["training_run"] == "demo"
    assert Path(summary["paths"]["model_card"]).is_file()
    with open_instance() as instance:
        steps = instance.fetch_observations(dg.AssetKey("grpo_policy"), limit=10).records
        assert {one.asset_observation.metadata["step"].value for one in steps} == {1, 2}
        assert all(run.status is dg.DagsterRunStatus.SUCCESS for run in instance.get_runs())
    lifecycle.main(["--config", str(path)])
    again = capsys.readouterr().out
    assert again.count(" 0 new rollouts") == 2 and "reused" in again
    second = json.loads((root / "summary.json").read_text())
    assert second["scores"]["scores"] == summary["scores"]["scores"]
    assert second["training"] == summary["training"]
    size = sum(file.stat().st_size for file in (root / "dagster_home").rglob("*"))
    assert size < 50_000_000
    assert os.environ["DAGSTER_HOME"] == str(root / "dagster_home")
