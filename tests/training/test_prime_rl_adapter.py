"""An adapter in Dagster runs: trained by prime-rl's stand-ins, served, judged, made champion.

A program stands in for vLLM that is right where the adapter is asked by its name, and wrong where
its base model is; what vLLM itself says with an adapter is in ``test_vllm_training.py``.
"""

import json
from pathlib import Path

import pytest

from assets.training.config import PrimeRlConfig, PrimeRlSlurmConfig
from tests.policy.fake_vllm import make_python
from tests.training.test_prime_rl_dagster import failure_of, place, run_assets
from text2sql.datasets.stored import load_questions
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.policy.open import policy_directory
from text2sql.policy.weights import read_adapter
from text2sql.training.backends import require_adapter_server, require_weights
from text2sql.training.runs import training_record

__all__ = ["place"]

SAMPLED = {"shards": 1, "samples": 2, "single_turn": False}
EVALUATION = ["dev_rollouts", "dev_scores", "model_card", "champion_policy"]


def trained_by(place, **trainer) -> dict:
    """The config of a training run with prime-rl's stand-ins."""
    return {"config": {"trainer": {"prime_rl_lora": place.settings(**trainer)}}}


@pytest.fixture
def vllm(place) -> dict:
    """The resource ``policy`` of a project that serves with vLLM: a program in its place."""
    folder = place.folder / "vllm"
    folder.mkdir()
    found = {
        question.question: question.sql
        for split in ("train", "dev")
        for question in load_questions(place.folder / "root", split)
    }
    (folder / "queries.json").write_text(json.dumps(found))
    return {"server": "vllm", "vllm": {"python": str(make_python(folder, "answer"))}}


def metadata(result, asset: str) -> dict:
    """What a run's materialization of an asset says."""
    (event,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in event.metadata.items()}


@pytest.mark.slow
def test_an_adapter_is_trained_served_beside_its_base_judged_and_promoted(place, vllm):
    root = place.folder / "root"
    refused = failure_of(run_assets(["grpo_policy"], grpo_policy=trained_by(place)))
    assert "An adapter can only be evaluated through vLLM: set the policy's server to" in refused
    ops = {"grpo_policy": trained_by(place), "dev_rollouts": {"config": SAMPLED}}
    result = run_assets(["grpo_policy", *EVALUATION], vllm, **ops)
    assert result.success, failure_of(result)
    record = training_record(root, "first")
    adapter = read_adapter(Path(record["policy"]))
    assert adapter.base == policy_directory("pocket") and adapter.rank == 32
    shown = metadata(result, "dev_scores")
    assert (shown["base greedy"], shown["trained greedy"]) == (0.0, 1.0)
    assert champion_record(root)["revision"] == record["policy_revision"]
    said = (place.folder / "vllm" / "arguments").read_text()
    assert f"first={adapter.directory}" in said
    assert not place.processes()
    more = {"config": SAMPLED | {"samples": 3}}
    here = failure_of(run_assets(["dev_rollouts"], dev_rollouts=more))
    assert "is an adapter, which only vLLM can serve: in Dagster set the policy's" in here
    with pytest.raises(Text2SqlError, match="training starts from all weights of a model: start"):
        require_weights(adapter.directory, "first")


@pytest.mark.parametrize("config", [PrimeRlConfig(lora_rank=8), PrimeRlSlurmConfig(lora_rank=8)])
def test_every_trainer_needs_vllm_before_it_trains_an_adapter(config):
    require_adapter_server(config, "vllm")
    with pytest.raises(Text2SqlError, match=r"through vLLM.*lora_rank 0"):
        require_adapter_server(config, "in_process")
