"""What is checked before prime-rl is started, with stand-ins for it and for nvidia-smi."""

import json
import socket
import struct

import pytest

from tests.support.prime_rl_place import FULL, Place
from text2sql.errors import Text2SqlError
from text2sql.policy.open import policy_directory
from text2sql.training.prime_rl import checkout
from text2sql.training.prime_rl.preflight import disk_bytes, preflight
from text2sql.training.prime_rl.settings import LaunchPlan, read_settings
from text2sql.training.prime_rl.toml import rl_config


@pytest.fixture
def place(tmp_path):
    """A place with stand-ins."""
    return Place(tmp_path)


def check(place: Place, monkeypatch, **changes) -> list[str]:
    """Do the preflight in this process; return what it found."""
    for name in ("PRIME_RL_DIR", "PATH"):
        monkeypatch.setenv(name, place.environment[name])
    backend = changes.pop("backend", "prime_rl_lora")
    model = changes.pop("model", str(policy_directory("pocket")))
    plan = LaunchPlan(
        backend=backend,
        settings={},
        agent={},
        policy_dir=model,
        prompts=place.prompts,
        golds=place.golds,
        output_dir=place.output,
    )
    settings = read_settings(backend, place.settings(**changes))
    said = []
    preflight(settings, plan, rl_config(settings, plan), said.append)
    return said


def test_preflight_says_what_it_found(place, monkeypatch):
    said = " ".join(check(place, monkeypatch))
    assert (
        "4 prompts" in said
        and "NVIDIA H200" in said
        and "but the settings are for 559b4477" in said
    )


def test_too_few_gpus_are_refused(tmp_path, monkeypatch):
    with pytest.raises(Text2SqlError, match="needs 2 GPUs, but 1 can be seen: set train_"):
        check(Place(tmp_path, gpus=1), monkeypatch)


def test_memory_that_somebody_holds_is_named(tmp_path, monkeypatch):
    with pytest.raises(Text2SqlError, match=r"VLLM::EngineCor \(process 4711, 101.8 GiB\)"):
        check(Place(tmp_path, free=39_000), monkeypatch)


def test_a_port_in_use_is_named(place, monkeypatch):
    with socket.socket() as other:
        other.bind(("", place.ports[1]))
        other.listen()
        with pytest.raises(Text2SqlError, match=rf"Port {place.ports[1]} \(engine_port\) is in"):
            check(place, monkeypatch)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_prompts_than_a_step_needs(place, monkeypatch, count):
    place.write_prompts(count)
    with pytest.raises(Text2SqlError, match=f"has {count} prompts?; a step needs 2"):
        check(place, monkeypatch)


def test_an_environment_that_is_not_installed(place, monkeypatch):
    (place.site / "text2sql_env.py").write_text("import nowhere_to_be_found")
    with pytest.raises(Text2SqlError, match=r"No module named 'nowhere_to_be_found'.*uv pip"):
        check(place, monkeypatch)


def test_an_environment_with_other_code_is_refused(place, monkeypatch):
    here = checkout.package() | {"code": "0123456789abcdef"}
    monkeypatch.setattr(checkout, "package", lambda: here)
    with pytest.raises(
        Text2SqlError, match=r"other code of text2sql .*this project \(0123456789ab"
    ):
        check(place, monkeypatch)


def test_a_model_that_is_not_here(place, monkeypatch):
    with pytest.raises(Text2SqlError, match=r"download it with hf download Qwen/Qwen3\.5-9B"):
        check(place, monkeypatch, model="Qwen/Qwen3.5-9B")


def test_what_prime_rl_refuses(place, monkeypatch):
    place.behave(refuse="trainer.optim.lr: Input should be greater than 0")
    with pytest.raises(Text2SqlError, match=r"status 1\):\ntrainer.optim.lr: Input should be"):
        check(place, monkeypatch)


def test_no_prime_rl(place, monkeypatch):
    place.prime_rl.rename(place.folder / "elsewhere")
    with pytest.raises(Text2SqlError, match=r"has no .venv/bin/rl"):
        check(place, monkeypatch)


def test_the_disk_that_a_9b_model_needs_is_below_what_is_planned():
    needed = disk_bytes(read_settings("prime_rl", {}), 18_000_000_000)
    assert 350e9 < needed < 600e9


def test_a_disk_that_is_too_small(place, monkeypatch):
    model = place.folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    size = 1 << 43  # a sparse file: 8 TiB that take no place
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with (model / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    with pytest.raises(Text2SqlError, match="free some, set checkpoints_kept lower"):
        check(place, monkeypatch, model=str(model), **FULL)
