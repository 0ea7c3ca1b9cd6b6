"""What a run with prime-rl leaves, behind a real vLLM server: all weights, and an adapter on them.

The run's weights are the pocket policy's, written by the stand-in for the trainer; the adapter's
are random. One server has both: the adapter by its name, its base model as ``base``.
"""

import asyncio
import json
import os
import urllib.request

import pytest
import torch
from safetensors.torch import save_file

from resources.policy import PolicyResource, VllmConfig
from tests.policy.test_vllm import BUILT, INSTALLED, draw
from tests.support.prime_rl_place import FULL, Place
from tests.support.splits import load_split
from text2sql.agent.settings import AgentSettings
from text2sql.datasets.pocket.corpus import CorpusSizes, generate
from text2sql.errors import Text2SqlError
from text2sql.policy.base import Sampling
from text2sql.policy.local.loading import load_model
from text2sql.policy.open import open_policy
from text2sql.policy.vllm.options import PYTHON_VARIABLE
from text2sql.policy.weights import BASE_NAME, directory_revision
from text2sql.sandbox import Sandbox
from text2sql.training.prime_rl.assemble import assemble

RANK, ALPHA = 20, 40
MODULES = ("q_proj", "v_proj", "o_proj", "down_proj")
PROMPT = "List the names of all"

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not INSTALLED, reason="no vLLM here: make vllm-cpu builds it"),
]


def add_adapter(model, folder):
    """Add a random adapter to a model in memory and write it as prime-rl's trainer does."""
    generator, weights = torch.Generator().manual_seed(7), {}
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in MODULES:
            first = torch.randn(RANK, module.in_features, generator=generator) / 8
            second = torch.randn(module.out_features, RANK, generator=generator) / 8
            weights |= {f"{name}.lora_A.weight": first, f"{name}.lora_B.weight": second}
            module.weight.data += ALPHA / RANK * (second @ first).to(module.weight.dtype)
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter_model.safetensors")
    about = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA}
    about |= {"target_modules": list(MODULES), "bias": "none", "lora_dropout": 0.0}
    (folder / "adapter_config.json").write_text(json.dumps(about))
    (folder / "STABLE").touch()


def greedy(model, tokenizer, count: int) -> list[int]:
    """What a model in this process says after the prompt."""
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    for _ in range(count):
        logits = model(input_ids=ids).logits[0, -1]
        ids = torch.cat([ids, logits.argmax().reshape(1, 1)], dim=1)
    return ids[0, -count:].tolist()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The policy of a run with stand-ins, an adapter on it, and what both say."""
    place = Place(tmp_path_factory.mktemp("run"))
    done = place.launch(**FULL)
    assert done.returncode == 0, done.stderr
    policy, adapter = place.output / "policy", place.output / "adapter"
    model, tokenizer = load_model(policy, 1)
    with torch.no_grad():
        said = {BASE_NAME: greedy(model, tokenizer, 12)}
        add_adapter(model, place.output / "broadcasts" / "step_3")
        said["adapter"] = greedy(model, tokenizer, 12)
    agent = AgentSettings.for_policy(policy)
    record = assemble(place.output / "broadcasts" / "step_3", policy, adapter, agent)
    return adapter, record, said


@pytest.fixture(scope="module")
def resource():
    """A project whose policies are served by vLLM."""
    python = os.environ.get(PYTHON_VARIABLE) or str(BUILT / "bin" / "python")
    vllm = VllmConfig(python=python, ready_seconds=300.0, extra_args=["--dtype", "float32"])
    return PolicyResource(server="vllm", vllm=vllm)


@pytest.fixture(scope="module")
def served(trained, resource):
    """The adapter, opened as the evaluation opens a trained policy."""
    policy = resource.open(trained[0])
    yield policy
    asyncio.run(policy.close())


def completed(url: str, model: str, count: int) -> list[int]:
    """What the server says after the prompt."""
    asked = {"model": model, "prompt": PROMPT, "max_tokens": count, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/completions",
        json.dumps(asked | {"return_token_ids": True, "ignore_eos": True}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["token_ids"]


def test_the_assembled_policy_answers_questions(served, tmp_path):
    root = generate(tmp_path / "pocket", 77, CorpusSizes(1, 24, 8, 16))
    questions = load_split(root, "dev").questions[:8]
    with Sandbox(workers=2) as sandbox:
        golds, rollouts = draw(
            served.server.url, questions, sandbox, tmp_path, Sampling(), model=BASE_NAME
        )
    assert len(golds) == 8 and all(rollout.valid and rollout.calls for rollout in rollouts)
    assert any(rollout.verdict == "match" for rollout in rollouts)


def test_the_adapter_says_what_its_weights_say(served, trained):
    adapter, record, said = trained
    url = served.server.url
    assert said[BASE_NAME] != said["adapter"]
    assert {name: completed(url, name, 12) for name in said} == said
    assert record["vllm_arguments"][:3] == ["--enable-lora", "--max-lora-rank", "32"]
    assert open_policy(url, "adapter").info.name == adapter.name


def test_the_adapter_is_a_policy_of_the_project(served, trained, resource):
    adapter, record, _ = trained
    assert resource.revision(adapter) == record["revision"] == served.info.revision
    assert resource.settings(adapter) == AgentSettings.for_policy(adapter)


def test_an_adapter_is_not_served_on_another_base(trained, resource, tmp_path):
    adapter, record, _ = trained
    other = adapter.with_name("other")
    other.mkdir()
    for file in adapter.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    about = json.loads((other / "training.json").read_text())
    (other / "training.json").write_text(json.dumps(about | {"base_revision": "0" * 16}))
    assert directory_revision(other) != record["revision"]
    with pytest.raises(Text2SqlError, match="was trained on 0000000000000000"):
        resource.open(other)
    with pytest.raises(Text2SqlError, match="which only vLLM can serve"):
        PolicyResource().open(adapter)
