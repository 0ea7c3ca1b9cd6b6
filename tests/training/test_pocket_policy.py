"""The shipped pocket policy: its chat template, its files, its answers, how it is made."""

import asyncio
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from text2sql.agent.loop import run_episode
from text2sql.agent.settings import AgentSettings
from text2sql.datasets.pocket.corpus import CorpusSizes, generate
from text2sql.datasets.pocket.tokenizer import CHAT_TEMPLATE, train_tokenizer
from text2sql.datasets.pocket.traces import AGENT_CONFIG, demonstrations
from text2sql.datasets.pocket.words import UNSEEN
from text2sql.policy.base import Sampling
from text2sql.policy.open import open_policy, policy_directory
from text2sql.sandbox import Sandbox

DIRECTORY = policy_directory("pocket")
USER = {"role": "user", "content": "how many teams are there?"}


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(DIRECTORY)


def call(name: str, **arguments: object) -> dict:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}


def test_the_template_writes_qwens_tool_calls_and_leaves_out_the_system_message(tokenizer):
    messages = [
        {"role": "system", "content": "You answer questions."},
        USER,
        call("sample_rows", table="teams", limit=2),
        {"role": "tool", "content": "id\n1"},
        {"role": "tool", "content": "ignored"},
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>user\nhow many teams are there?<|im_end|>\n"
        "<|im_start|>assistant\n<tool_call>\n<function=sample_rows>\n"
        "<parameter=table>\nteams\n</parameter>\n<parameter=limit>\n2\n</parameter>\n"
        "</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nid\n1\n</tool_response><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nignored\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_a_longer_conversation_extends_the_tokens_of_a_shorter_one(tokenizer):
    for messages in islice(demonstrations(6, 0.5, 0.3, UNSEEN), 20):
        whole = tokenizer.apply_chat_template(messages, return_dict=False)
        for end in range(1, len(messages)):
            ready = messages[end]["role"] == "assistant"
            start = tokenizer.apply_chat_template(
                messages[:end], add_generation_prompt=ready, return_dict=False
            )
            assert whole[: len(start)] == start


def test_only_the_policys_own_tokens_are_marked_for_training(tokenizer):
    messages = [USER, call("submit", sql="SELECT 1"), {"role": "tool", "content": "submitted"}]
    encoded = tokenizer.apply_chat_template(
        [*messages, {"role": "assistant", "content": ""}],
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    own = [
        token
        for token, mark in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True)
        if mark
    ]
    assert tokenizer.decode(own) == (
        "<tool_call>\n<function=submit>\n<parameter=sql>\nSELECT 1\n</parameter>\n</function>\n"
        "</tool_call><|im_end|><|im_end|>"
    )


def test_trl_accepts_the_template(tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl.chat_template_utils import is_chat_template_prefix_preserving, supports_tool_calling

    assert supports_tool_calling(tokenizer)
    assert is_chat_template_prefix_preserving(tokenizer)


def test_text_survives_the_tokenizer_and_no_turn_exceeds_the_reply_limit(tokenizer):
    for text in ("Größe 12.5 % → 'né'", 'SELECT "a b" FROM t -- x\n', "日本 🚲"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    for messages in islice(demonstrations(7, 1.0, 0.0, UNSEEN), 200):
        sql = messages[-3]["tool_calls"][0]["function"]["arguments"]["sql"]
        assert len(tokenizer.encode(sql)) + 4 <= AGENT_CONFIG["max_tokens"]


def test_the_shipped_files_are_what_the_code_makes(tokenizer, tmp_path: Path):
    train_tokenizer().save_pretrained(tmp_path)
    for path in tmp_path.iterdir():
        assert (DIRECTORY / path.name).read_text() == path.read_text()
    assert tokenizer.chat_template == CHAT_TEMPLATE
    assert AgentSettings.for_policy(DIRECTORY) == AgentSettings(**AGENT_CONFIG)
    assert (DIRECTORY / "model.safetensors").stat().st_size < 2_500_000
    config = json.loads((DIRECTORY / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert config["dtype"] == "bfloat16"


def test_the_policy_answers_general_questions_through_the_real_agent(tmp_path: Path):
    corpus = generate(tmp_path / "corpus", 77, CorpusSizes(1, 1, 1, 24))
    questions = load_general(corpus)
    golds = asyncio.run(submissions(questions))
    right = sum(sql == question.sql for sql, question in zip(golds, questions, strict=True))
    assert right >= 20


def load_general(corpus: Path):
    from tests.support.splits import load_split

    return [q for q in load_split(corpus, "dev").questions if q.subset == "general"]


async def submissions(questions) -> list[str | None]:
    """What the policy submits, greedily, for each question."""
    policy = open_policy("pocket")
    settings = AgentSettings.for_policy(DIRECTORY)
    with Sandbox(workers=1) as sandbox:
        episodes = await asyncio.gather(
            *(run_episode(q, policy, sandbox, settings, Sampling()) for q in questions)
        )
    await policy.close()
    return [episode.sql for episode in episodes]


@pytest.mark.slow
def test_pre_training_writes_a_policy_that_opens(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "text2sql.training.pretraining.pretrain",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*command, "--steps", "2", "2"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    shipped = {path.name for path in DIRECTORY.iterdir()} - {"README.md"}
    assert {path.name for path in (tmp_path / "policy").iterdir()} == shipped
    assert (
        open_policy(str(tmp_path / "policy")).info.revision != open_policy("pocket").info.revision
    )
