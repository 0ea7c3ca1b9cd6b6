"""prime-rl as Dagster's trainer, with stand-ins: followed, crashed, resumed, stalled."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import dagster as dg
import pytest

from assets.training.config import PrimeRlConfig, PrimeRlLoraConfig, TrlConfig
from pipelines.definitions import defs
from pipelines.partitions import add_training_run
from resources.forms import InvalidValue
from resources.trainer import ended
from tests.support.lifecycle_tools import CORPUS
from tests.support.prime_rl_place import FULL, Place
from tests.support.waiting import wait_until
from text2sql.common.json_files import write_rows
from text2sql.common.processes import descendants
from text2sql.datasets.stored import load_golds, load_questions
from text2sql.training.backends import identity_settings, result_settings

SHOWN: list = []
"""What the last run showed while it ran."""
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An artifact root with a small corpus and prompts, and prime-rl's stand-ins."""
    place = Place(tmp_path)
    root = tmp_path / "root"
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    monkeypatch.setenv("DAGSTER_HOME", "")
    for name in ("PRIME_RL_DIR", "PATH"):
        monkeypatch.setenv(name, place.environment[name])
    ingested = ["bird_archive", "bird_questions", "bird_databases", "gold_results"]
    assert run_assets(ingested, **CORPUS).success
    questions, golds = load_questions(root, "train"), load_golds(root, "train")
    write_rows(root / "prompts" / "prompts.jsonl", (each.to_dict() for each in questions))
    rows = (golds[question.key].to_dict() for question in questions)
    write_rows(root / "prompts" / "golds.jsonl", rows)
    return place


def run_assets(names: list[str], policy: dict | None = None, **ops):
    """Run some of the lifecycle's assets in this process, with this ``policy`` resource."""
    with dg.DagsterInstance.ephemeral() as instance:
        add_training_run(instance, "first")
        result = defs.resolve_job_def("lifecycle").execute_in_process(
            instance=instance,
            partition_key="first",
            asset_selection=[dg.AssetKey(name) for name in names],
            raise_on_error=False,
            run_config={
                "ops": ops,
                "loggers": QUIET,
                "resources": {"policy": {"config": policy or {}}},
            },
        )
        SHOWN[:] = instance.fetch_observations(dg.AssetKey("grpo_policy"), limit=1000).records
        return result


def train(place: Place, stall_seconds: float = 60.0, **changes):
    """Train with prime-rl's stand-ins."""
    settings = place.settings(**{name: FULL[name] for name in FULL if name != "backend"})
    config = {"trainer": {"prime_rl": settings | changes}, "stall_seconds": stall_seconds}
    return run_assets(["grpo_policy"], grpo_policy={"config": config})


def metadata_of(result) -> dict:
    """The metadata of the trained policy."""
    (event,) = result.get_asset_materialization_events()
    assert len(dg.serialize_value(event.materialization)) < 64_000
    return {name: value.value for name, value in event.materialization.metadata.items()}


def failure_of(result) -> str:
    """What the failed step says."""
    (event,) = [one for one in result.all_events if one.is_step_failure]
    return event.step_failure_data.error.to_string()


def observed() -> dict[int, dict]:
    """The numbers that the last run showed, by step."""
    found: dict[int, dict] = {}
    for record in SHOWN:
        metadata = record.asset_observation.metadata
        line = {name: value.value for name, value in metadata.items()}
        found.setdefault(line["step"], {}).update(line)
    return found


def test_missing_gpus_or_prime_rl_fail_a_run_before_the_filter_samples(place, monkeypatch):
    stages = ["base_rollouts", "training_prompts", "grpo_policy"]
    trained = {"grpo_policy": {"config": {"trainer": {"prime_rl": {}}}}}
    result = run_assets(stages, **trained)
    assert "The run needs 8 GPUs, but 2 can be seen" in failure_of(result)
    monkeypatch.delenv("PRIME_RL_DIR")
    assert "PRIME_RL_DIR is not set" in failure_of(run_assets(stages, **trained))
    kept = {"training_prompts": {"config": {"least_solved": 9}}}
    assert "no question can be kept; set least_solved lower" in failure_of(
        run_assets(stages[:2], **kept)
    )
    assert not (place.folder / "root" / "rollouts").exists()


@pytest.mark.slow
def test_a_crashed_run_is_continued_and_described(place):
    place.behave(crash={"torchrun": [5, "CUDA out of memory. Tried to allocate 2 GiB", 1]})
    crashed = train(place)
    assert "a GPU is out of memory; lower sequence_tokens" in failure_of(crashed)
    assert {1, 2, 3, 4} <= set(observed())
    place.behave()
    trained = train(place, steps=8)
    assert trained.success, failure_of(trained)
    shown = metadata_of(trained)
    assert shown["started with"] == "--resume.step 4"
    assert len(shown["prime-rl commit"]) == 40
    lineage = ("prompts version", "base revision", "code version", "config version")
    assert all(len(shown[name]) == 16 for name in lineage)
    assert (shown["backend"], shown["reused"]) == ("prime_rl", False)
    assert Path(shown["logs"]).is_dir() and Path(shown["log"]).is_file()
    wanted = {"reward", "exact_match", "loss", "entropy", "kl", "off_policy_lag", "seconds",
              "tokens_per_second", "seconds_left", "estimated_end"}  # fmt: skip
    assert wanted <= set(observed()[8])
    again = metadata_of(train(place, steps=8))
    assert (again["reused"], again["policy revision"]) == (True, shown["policy revision"])
    longer = metadata_of(train(place, steps=10, learning_rate=2e-6))
    assert longer["started with"] == "--resume.step 8"
    plan = json.loads((Path(longer["policy"]).parent / "config.json").read_text())
    assert Path(plan["evaluation_prompts"]).read_text().count("\n") > 0
    assert not place.processes() and not place.busy_ports()


def test_a_stalled_run_is_ended_and_kept(place):
    place.behave(hang_at=2)
    begun = time.monotonic()
    said = failure_of(train(place, stall_seconds=12, steps=50))
    assert "no progress for 12 s and was ended; the last step was 2" in said
    assert time.monotonic() - begun < 90
    assert not place.processes() and not place.busy_ports()


def test_which_settings_may_change_when_a_run_is_resumed():
    def lasting(config):
        return identity_settings(config.backend, config)

    first = PrimeRlConfig()
    assert lasting(first) == lasting(PrimeRlConfig(steps=300, learning_rate=2e-6, fresh=True))
    assert lasting(first) != lasting(PrimeRlConfig(group_size=4))
    assert lasting(first) != lasting(PrimeRlLoraConfig())
    assert lasting(TrlConfig()) != lasting(TrlConfig(steps=61))
    assert not {"fresh", "backend"} & set(result_settings(first))
    with pytest.raises(InvalidValue, match="train_gpus and inference_gpus are 13 together"):
        PrimeRlConfig(train_gpus=9)


def test_surviving_processes_are_named():
    parent = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True)
    assert wait_until(lambda: [one.name() for one in descendants(parent.pid)] == ["sleep"])
    said = []
    with ended(Unending(parent.pid), said.append):
        pass
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    assert "could not be ended: sleep (process " in said[0]
    assert not descendants(parent.pid)


class Unending:
    """A child whose processes stay, as those do that hang in the kernel."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def stop(self) -> None:
        """End nothing."""
