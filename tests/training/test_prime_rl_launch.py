"""The launcher of prime-rl, with stand-ins for its programs: real processes, signals and files."""

import hashlib
import json

import pytest

from tests.support.prime_rl_place import FULL, Place
from text2sql.policy.local.loading import load_model
from text2sql.policy.open import policy_directory
from text2sql.policy.weights import directory_revision
from text2sql.training.prime_rl.checkout import package


@pytest.fixture
def place(tmp_path):
    """A place with stand-ins."""
    return Place(tmp_path)


def test_a_run_ends_with_a_policy_that_can_be_loaded(place):
    done = place.launch(**FULL)
    assert done.returncode == 0, done.stdout + done.stderr
    policy, base = place.output / "policy", policy_directory("pocket")
    assert len(list(policy.glob("*.safetensors"))) == 2
    trained, _ = load_model(policy, 1)
    original, _ = load_model(base, 1)
    for name, weights in original.state_dict().items():
        assert trained.state_dict()[name].equal(weights)
    record = json.loads((policy / "training.json").read_text())
    assert record["revision"] == directory_revision(policy)
    facts = record["prime_rl"]
    assert len(facts["prime-rl commit"]) == 40 and facts["environment"].startswith("text2sql ")
    assert facts["environment code"] == package()["code"]
    config, prompts = (place.output / "rl.toml").read_bytes(), place.prompts.read_bytes()
    assert facts["rl.toml sha256"] == hashlib.sha256(config).hexdigest()
    assert facts["prompts sha256"] == hashlib.sha256(prompts).hexdigest()
    assert place.is_clear()


def test_both_metrics_files_become_one(place):
    place.behave(step_seconds=0.05, kl=0.02)
    done = place.launch()
    steps = place.steps()
    assert sorted(steps) == [1, 2, 3, 4, 5, 6]
    expected = {"reward": 0.32, "exact_match": 0.16, "loss": 1 / 6, "entropy": 0.5, "kl": 0.02,
                "off_policy_lag": 1.0, "tokens_per_second": 1000.0, "seconds": 0.05}  # fmt: skip
    assert {name: pytest.approx(steps[6][name]) for name in expected} == expected
    assert "ALARM: the KL mismatch is 0.0200, above 0.015" in done.stdout


def test_an_adapter_comes_with_the_flags_to_serve_it(place):
    assert place.launch().returncode == 0
    text = (place.output / "policy" / "training.json").read_text()
    assert "--enable-lora" in text and f"text2sql={place.output / 'policy'}" in text
    assert (place.output / "policy" / "adapter_config.json").exists()


CRASHES = [
    ("torchrun", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", 1, 11, "memory"),
    ("orchestrator", "ModuleNotFoundError: No module named 'text2sql_env'", 1, 12, "imported"),
    ("torchrun", "torch.distributed.DistBackendError: NCCL error in: Socket", 1, 13, "NCCL"),
    ("orchestrator", "2 validation errors for OrchestratorConfig", 1, 10, "rejects"),
    ("orchestrator", "", -9, 15, "killed"),
    ("torchrun", "RuntimeError: something else", 1, 1, "ended with status 1"),
]


@pytest.mark.parametrize(("program", "text", "status", "exit_code", "said"), CRASHES)
def test_failures_are_told_apart(place, program, text, status, exit_code, said):
    place.behave(crash={program: [2, text, status]})
    done = place.launch()
    assert (done.returncode, said in done.stderr) == (exit_code, True), done.stderr
    assert place.is_clear()


def test_a_full_disk_is_named(place):
    place.behave(full_disk_at=2)
    done = place.launch()
    assert done.returncode == 14 and "No space left on device" in done.stderr
    assert place.is_clear()
