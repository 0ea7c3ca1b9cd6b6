"""prime-rl's environment against a scripted server: the verdicts are the evaluation's."""

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.policy.scripted_engine import ScriptedEngine, call_text, make_tokenizer
from tests.support.agent_databases import ask, make_database
from tests.support.scripted_server import ScriptedServer, calls, completion, fails, says, submits
from text2sql.agent.settings import AgentSettings
from text2sql.judge.verdicts import run_gold
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import ServerPolicy
from text2sql.rollouts.draw import RolloutPlan
from text2sql.rollouts.store import RolloutStore
from text2sql.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
PINNED = HERE.parents[1] / ".venv-verifiers" / "bin" / "python"
SETTINGS = {"max_turns": 3, "max_tokens": 512}
GOLD = "SELECT count(*) FROM city"
LOOK = calls(("inspect_schema", {}), reasoning="I must see the tables first.")

CONVERSATIONS = {
    "match": [LOOK, submits(GOLD)],
    "match after a nudge": [says("It must be three.", reasoning_content="Easy."), submits(GOLD)],
    "match after two calls at once": [
        calls(("sample_rows", {"table": "city"}), ("run_sql", {"sql": GOLD})),
        submits(GOLD),
    ],
    "match after a wrong call": [calls(("sample_row", {})), submits(GOLD)],
    "wrong": [submits("SELECT 1")],
    "error": [submits("SELECT nope FROM city")],
    "write": [submits("DROP TABLE city")],
    "write attempt": [calls(("run_sql", {"sql": "DELETE FROM city"})), submits(GOLD)],
    "no submission": [says("It is three."), says("Three!")],
    "no turn left": [LOOK, LOOK, LOOK],
    "cut reply": [completion({"content": "SELECT"}, "length")],
    "too long": [LOOK, *2 * [fails(400, "This model's maximum context length is 100 tokens.")]],
    "server failure": [fails(400, "the engine is gone")],
}


def next_reply(body):
    """Answer a request by the question's number and the turns that it has had."""
    name = list(CONVERSATIONS)[int(body["messages"][1]["content"].split()[-1])]
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    return CONVERSATIONS[name][min(turn, len(CONVERSATIONS[name]) - 1)]


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Questions, one a conversation, and their gold results, with the files of both."""
    folder = tmp_path_factory.mktemp("environment")
    database = make_database(folder / "shop.db")
    questions = [
        ask(database, f"Question {number}", key=f"t/{name}", sql=GOLD)
        for number, name in enumerate(CONVERSATIONS)
    ]
    with Sandbox(1) as sandbox:
        golds = [run_gold(question, sandbox) for question in questions]
    files = {"prompts": folder / "prompts.jsonl", "golds": folder / "golds.jsonl"}
    for path, rows in zip(files.values(), (questions, golds), strict=True):
        path.write_text("".join(json.dumps(row.to_dict()) + "\n" for row in rows))
    return questions, golds, {name: str(path) for name, path in files.items()}


@pytest.fixture(scope="module")
def evaluated(material, tmp_path_factory):
    """The same conversations on the evaluation's path: rollouts by key."""
    questions, golds, _ = material
    by_key = {gold.key: gold for gold in golds}
    store = RolloutStore(tmp_path_factory.mktemp("evaluation") / "rollouts.jsonl")
    settings, sampling = AgentSettings(**SETTINGS), Sampling(1.0, max_tokens=512)

    async def draw(url):
        policy = ServerPolicy(url, "scripted")
        try:
            plan = RolloutPlan(policy, sandbox, settings, sampling, golds=by_key)
            return await plan.rollouts(questions, store)
        finally:
            await policy.close()

    with ScriptedServer(next_reply) as server, Sandbox(1) as sandbox:
        return {rollout.key: rollout for rollout in asyncio.run(draw(server.url))}


def python_with(verifiers):
    """The interpreter that has this verifiers, or a skip that says how to get it."""
    if verifiers == "installed":
        if find_spec("verifiers") is None:
            pytest.skip("verifiers is not installed here: pip install -e '.[dev]'")
        return sys.executable
    if not PINNED.exists():
        pytest.skip("the verifiers that prime-rl pins is not here: make verifiers-pinned")
    return str(PINNED)


def roll_out(python, material, script=next_reply, workers=0, tokenizer="", **agent):
    """Run the program of the environment's rollouts; return what it printed."""
    with ScriptedServer(script) as server:
        wanted = {"server": server.url, **material[2], "settings": SETTINGS, "agent": agent}
        wanted |= {"workers": workers, "tokenizer": tokenizer}
        done = subprocess.run(
            [python, str(HERE / "environment_rollouts.py")],
            input=json.dumps(wanted),
            capture_output=True,
            text=True,
            timeout=300,
            cwd=HERE.parents[1],
            env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["installed", "pinned"])
def printed(request, material):
    """All conversations, rolled out in the program's own process."""
    return roll_out(python_with(request.param), material)


def check_equal(traces, evaluated):
    """Compare traces with the evaluation's rollouts."""
    assert sorted(trace["key"] for trace in traces) == sorted(evaluated)
    for trace in traces:
        rollout = evaluated[trace["key"]]
        assert trace["ok"] == rollout.valid, trace
        if not rollout.valid:
            assert trace["result"] is None and trace["errors"]
            continue
        result = trace["result"]
        for name in ("sql", "status", "verdict", "digest", "row_count", "stop_reason"):
            assert result[name] == getattr(rollout, name), (trace["key"], name)
        # what was too long is said in words of verifiers' own, if at all
        if rollout.stop_reason != "context_exceeded":
            assert result["error"] == rollout.error, trace["key"]
        assert [call["status"] for call in result["calls"]] == [c["status"] for c in rollout.calls]
        assert trace["rewards"] == {"reward": rollout.reward}
        assert trace["metrics"] == {
            "exact_match": float(rollout.verdict == "match"),
            "write_attempts": float(rollout.write_attempts),
            "turns": float(rollout.turns),
            "truncated": float(rollout.verdict == "truncated"),
        }


def test_every_kind_of_end_occurs(evaluated):
    assert {rollout.verdict for rollout in evaluated.values()} == {
        "match",
        "wrong",
        "error",
        "write",
        "no_submission",
        "truncated",
        "infrastructure",
    }


def test_verdicts_are_those_of_the_evaluation(printed, evaluated):
    check_equal(printed["traces"], evaluated)


def test_a_key_is_the_questions_own(printed):
    assert all(trace["task_key"] == trace["key"] for trace in printed["traces"])


def test_history_goes_back_as_it_came(printed):
    """A changed history would fork the trace, and the trainer would tokenize it anew."""
    assert {t["branches"] for t in printed["traces"] if t["ok"]} == {1}


def test_neither_dagster_nor_pandas_is_pulled_in(printed):
    assert printed["dagster"] == []


def test_tasks_come_shuffled_and_in_the_same_order(printed, material):
    keys = [trace["key"] for trace in printed["traces"]]
    assert keys != [question.key for question in material[0]]
    assert len(set(keys)) == len(keys)


@pytest.mark.slow
@pytest.mark.parametrize("verifiers", ["installed", "pinned"])
def test_the_env_server_gives_the_same_verdicts(verifiers, material, evaluated):
    check_equal(roll_out(python_with(verifiers), material, workers=1)["traces"], evaluated)


def test_a_token_limit_of_verifiers_is_a_truncation(material):
    python = python_with("installed")
    traces = roll_out(python, material, max_total_tokens=25)["traces"]
    cut = next(trace for trace in traces if trace["key"] == "t/match")
    assert cut["ok"] and cut["result"]["verdict"] == "truncated"
    assert cut["rewards"] == {"reward": 0.0} and cut["metrics"]["truncated"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("verifiers", ["installed", "pinned"])
def test_the_trainer_learns_from_the_very_tokens_that_were_drawn(verifiers, material, tmp_path):
    """Rolled out with prime-rl's own client: a turn's prompt goes on where the last one ended."""
    python = python_with(verifiers)
    tokenizer = make_tokenizer(tmp_path)
    oddly_spaced = "SELECT   count( * )\n\n FROM\tcity"

    def reply(prompt):
        return [
            "First the  tables.\n\n" + call_text("inspect_schema"),
            "I think it is three.",
            call_text("submit", sql=oddly_spaced),
        ][prompt.count("<|im_start|>assistant") - 1]

    engine = ScriptedEngine(tokenizer, reply)
    traces = roll_out(python, material, script=engine, tokenizer=str(tmp_path))["traces"]
    assert [trace["errors"] for trace in traces] == [[]] * len(CONVERSATIONS)
    assert {trace["result"]["verdict"] for trace in traces} == {"match"}
    assert {trace["result"]["sql"] for trace in traces} == {oddly_spaced}
    for trace in traces:
        (tokens,), (sampled,) = trace["tokens"], trace["sampled"]
        turns = [(p, w) for p, w in engine.turns if tokens[: len(p) + len(w)] == p + w]
        assert len(turns) == 3
        drawn = [token for _, written in turns for token in written]
        assert [t for t, mine in zip(tokens, sampled, strict=True) if mine] == drawn
