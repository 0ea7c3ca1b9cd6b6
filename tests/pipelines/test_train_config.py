"""What is asked of a training run before it is started: settings, run config, and the machine."""

from __future__ import annotations

import json

import pytest
import yaml

from assets.rollouts.sampling import plan_shards
from assets.training.config import (
    BaseRolloutsConfig,
    GrpoConfig,
    read_forms,
    require_questions,
    require_trainable,
)
from pipelines.programs.train import Request, describe, trainer_of, training_config
from resources.policy import PolicyResource
from tests.support.prime_rl_place import Place
from text2sql.common.provenance import sealed
from text2sql.errors import Text2SqlError
from text2sql.policy.base import Sampling
from text2sql.rollouts.sets import RolloutSet


def enter(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process see the place's programs and GPUs."""
    for name in ("PRIME_RL_DIR", "PATH"):
        monkeypatch.setenv(name, place.environment[name])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def refused(*, backend: str = "", **settings: str) -> str:
    """Return what a training run with these settings is refused for."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    with pytest.raises(Text2SqlError) as raised:
        training_config(Request("july", named, backend=backend))
    return str(raised.value)


@pytest.mark.parametrize(
    ("backend", "settings", "sentence"),
    [
        (
            "prime_rl",
            {"train_gpus": "8", "inference_gpus": "8"},
            "prime_rl: train_gpus and inference_gpus are 16 together, gpus_per_node is 8.",
        ),
        (
            "prime_rl",
            {"engine_port": "8000"},
            "prime_rl: router_port, engine_port, environment_port and the port after it must be "
            "four different ports, not 8000, 8000, 5000 and 5001.",
        ),
        ("trl", {"learning_rate": "1"}, "trl: learning_rate is 1: Input should be less than or"),
        (
            "prime_rl_slurm",
            {"time_limit": "soon"},
            "prime_rl_slurm: time_limit is 'soon': Time limit of the job: hours:",
        ),
        (
            "",
            {"training_prompts__minimum": "1"},
            "ops.training_prompts.config has no 'minimum', only least_solved, minimum_prompts, ",
        ),
        ("", {"policy__base": "x"}, "ops has no 'policy', only base_rollouts, dev_rollouts, "),
        (
            "",
            {"base_rollouts__samples": "500"},
            "base_rollouts: samples is 500: Input should be less than or equal to 128.",
        ),
        (
            "",
            {"base_rollouts__shards": "x"},
            "The run config is wrong: ops.base_rollouts.config.shards is 'x': give a whole number.",
        ),
        ("", {"dev_scores__timed_runs": "-1"}, "dev_scores: timed_runs is -1: Input should be"),
        (
            "",
            {"training_prompts__least_solved": "8"},
            "training_prompts keeps questions solved at least 8 times (least_solved) but not every "
            "time, and base_rollouts draws 8 (samples): no question can be kept;",
        ),
        (
            "",
            {"training_prompts__least_solved": "5", "training_prompts__most_solved": "3"},
            "most_solved (3) is below least_solved (5): no question can be kept;",
        ),
        (
            "",
            {"base_rollouts__samples": "4"},
            "training_prompts needs 6 valid rollouts per question (minimum_valid), but "
            "base_rollouts draws 4 (samples)",
        ),
        (
            "prime_rl",
            {"base_rollouts__max_questions": "20"},
            "grpo_policy needs 32 prompts (prompts_per_step), but base_rollouts samples only 20",
        ),
        (
            "",
            {"base_rollouts__max_questions": "9"},
            "training_prompts needs 16 prompts (minimum_prompts), but base_rollouts samples only 9",
        ),
        (
            "",
            {"bird_archive__source": "x"},
            "ops has no 'bird_archive', only base_rollouts, dev_rollouts, ",
        ),
    ],
)
def test_a_wrong_setting_is_one_sentence(backend, settings, sentence):
    assert sentence in refused(backend=backend, **settings)


def test_a_value_may_stand_in_an_environment_variable_as_dagster_lets_it(tmp_path, monkeypatch):
    file = tmp_path / "config.yaml"
    trainer = {"trl": {"steps": {"env": "STEPS"}}}
    ops = {"base_rollouts": {"config": {"samples": {"env": "SAMPLES"}}}}
    ops["grpo_policy"] = {"config": {"trainer": trainer}}
    file.write_text(yaml.safe_dump({"ops": ops}))
    monkeypatch.setenv("STEPS", "7")
    monkeypatch.setenv("SAMPLES", "8")
    config = training_config(Request("july", config=str(file)))
    assert trainer_of(config).steps == 7 and read_forms(config)["base_rollouts"].samples == 8
    monkeypatch.setenv("SAMPLES", "4")
    with pytest.raises(Text2SqlError, match="base_rollouts draws 4"):
        read_forms(config)
    monkeypatch.delenv("SAMPLES")
    with pytest.raises(Text2SqlError, match="environment variable SAMPLES, which is not set"):
        read_forms(config)


@pytest.mark.parametrize(
    "text", ["ops:\n", "ops:\n  base_rollouts:\n", "{}", "ops: {grpo_policy: }"]
)
def test_empty_parts_of_a_run_config_have_their_defaults(tmp_path, text):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    config = training_config(
        Request("july", {"seed": "3"}, start_from="champion", config=str(file))
    )
    assert trainer_of(config).seed == 3


@pytest.mark.parametrize("text", ["ops: {grpo_policy: 3}", "ops: {grpo_policy: {config: [1]}}"])
def test_a_value_in_place_of_a_mapping_is_refused(tmp_path, text):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(Text2SqlError, match=r"grpo_policy(\.config)? must be a mapping"):
        training_config(Request("july", config=str(file)))
    assert read_forms(yaml.safe_load(text))["grpo_policy"].trainer.backend == "trl"


def test_a_filter_alone_may_look_at_few_questions():
    few = {"ops": {"base_rollouts": {"config": {"max_questions": 9}}}}
    assert len(read_forms(few, ["base_rollouts", "training_prompts"])) == 2
    with pytest.raises(Text2SqlError, match="needs 16 prompts"):
        read_forms(few)


def test_a_training_needs_as_many_questions_as_prompts():
    given = {"ops": {"grpo_policy": {"config": {"trainer": {"prime_rl": {}}}}}}
    require_questions(read_forms(given), 32)
    with pytest.raises(Text2SqlError, match=r"needs 32 prompts \(prompts_per_step\), but only 20 "):
        require_questions(read_forms(given), 20)
    require_questions(read_forms(given, ["base_rollouts", "training_prompts"]), 1)


def test_every_setting_that_is_not_the_default_is_shown():
    config = training_config(Request("july", {"engine_port": "8200"}, backend="prime_rl"))
    assert describe(trainer_of(config)).endswith("engine_port 8200")


def test_a_large_model_may_take_longer_to_start():
    def limit(backend: str, **given: float) -> float:
        return GrpoConfig(trainer={backend: {}}, **given).stall_limit()

    assert (limit("trl"), limit("prime_rl_lora")) == (900, 3600)
    assert limit("prime_rl", stall_seconds=9) == 9


def test_missing_requirements_are_reported_before_the_filter(tmp_path, monkeypatch):
    def ready(backend: str, **resources) -> None:
        config = {"ops": {"grpo_policy": {"config": {"trainer": {backend: {}}}}}} | resources
        require_trainable(tmp_path, "july", config, trainer_of(config))

    monkeypatch.delenv("PRIME_RL_DIR", raising=False)
    ready("trl")
    ready("prime_rl", resources={"trainer": {"config": {"where": "kubernetes"}}})
    for backend in ("prime_rl", "prime_rl_slurm"):
        with pytest.raises(Text2SqlError, match="PRIME_RL_DIR is not set"):
            ready(backend)
    place = Place(tmp_path, gpus=2)
    enter(place, monkeypatch)
    ready("prime_rl_lora")
    (place.site / "text2sql_env.py").write_text("import pruned")
    with pytest.raises(Text2SqlError, match=r"import text2sql_env .*: in .*, run uv pip install"):
        ready("prime_rl_lora")
    ready("prime_rl_slurm")
    with pytest.raises(Text2SqlError, match="needs 8 GPUs, but 2 can be seen"):
        ready("prime_rl")
    with pytest.raises(Text2SqlError, match="no trainer 'tpu': use trl, prime_rl"):
        ready("tpu")
    record = tmp_path / "training" / "july" / "training.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(sealed({"policy": "there already"})))
    ready("prime_rl")


def test_shards_do_not_take_each_others_gpus(tmp_path, monkeypatch):
    wanted = RolloutSet("/model", "r", "p", "train", "d", Sampling(1.0), 8, ("train/1", "train/2"))

    def shards(count: int, server: str) -> int:
        config, policy = BaseRolloutsConfig(shards=count), PolicyResource(server=server)
        return len(list(plan_shards(tmp_path, [wanted], config, policy)))

    enter(Place(tmp_path / "none", gpus=0), monkeypatch)
    assert shards(2, "vllm") == 2
    enter(Place(tmp_path / "eight", gpus=8), monkeypatch)
    assert (shards(1, "vllm"), shards(2, "in_process")) == (1, 2)
    with pytest.raises(Text2SqlError, match="2 shards would each start a vLLM server on the same"):
        shards(2, "vllm")
