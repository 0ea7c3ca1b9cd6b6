"""Many rollouts against a real server: judged, stored, resumed, and safe from crashes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.support.agent_databases import ask, make_database
from tests.support.scripted_server import (
    ScriptedServer,
    Step,
    calls,
    completion,
    fails,
    says,
    submits,
)
from tests.support.stored_rollouts import latest
from text2sql.agent.settings import AgentSettings
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.verdicts import run_gold
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import Retry, ServerPolicy
from text2sql.rollouts.draw import RolloutPlan, vote_of
from text2sql.rollouts.store import RolloutStore

GOLD = "SELECT count(*) FROM city"
HOT = Sampling(temperature=1.0)
QUICK = Retry(attempts=2, first_wait=0.005, longest_wait=0.01)
HERE = Path(__file__).resolve().parent


@pytest.fixture
def questions(tmp_path):
    database = make_database(tmp_path / "shop.db")
    return [ask(database, f"question {n}", key=f"t/{n}", sql=GOLD) for n in range(4)]


@pytest.fixture
def draw(tmp_path, sandbox, questions):
    """Draw rollouts from a script into one store; returns them and the number of requests."""

    def run(script, samples=1, with_golds=True, asked=None, sampling=HOT, **options):
        asked = questions if asked is None else asked
        golds = {q.key: run_gold(q, sandbox) for q in asked} if with_golds else None
        store = RolloutStore(tmp_path / "r.jsonl") if options.pop("durable", True) else None
        settings = options.pop("settings", AgentSettings())
        revision = options.pop("revision", None)
        progress = options.pop("on_progress", None)
        with ScriptedServer(script) as server:
            policy = ServerPolicy(server.url, "m", revision=revision, retry=QUICK)
            plan = RolloutPlan(policy, sandbox, settings, sampling, samples, golds, **options)

            async def all_():
                try:
                    return await plan.rollouts(asked, store, on_progress=progress)
                finally:
                    await policy.close()

            found = asyncio.run(all_())
            run.peak = server.peak
            return found, len(server.requests)

    return run


def number_of(body):
    return int(body["messages"][1]["content"].split()[-1])


OUTCOMES = [
    submits(GOLD),
    submits("SELECT 1"),
    submits("SELECT nope FROM city"),
    submits("DROP TABLE city"),
    completion({"content": "SELECT"}, "length"),
    says("I do not know."),
    fails(503),
]
VERDICTS = [
    ("match", 1.0, "ok"),
    ("wrong", 0.1, "ok"),
    ("error", 0.0, "error"),
    ("write", -1.0, "write"),
    ("truncated", 0.0, ""),
    ("no_submission", 0.0, ""),
    ("infrastructure", None, ""),
]


def test_every_outcome_has_its_verdict_and_reward(draw, questions, tmp_path):
    asked = [ask(questions[0].database, f"q {n}", key=f"t/{n}", sql=GOLD) for n in range(7)]
    found, _ = draw(lambda body: OUTCOMES[number_of(body)], asked=asked)
    assert [(r.verdict, r.reward, r.status) for r in found] == VERDICTS
    assert [r.write_attempts for r in found] == [0, 0, 0, 1, 0, 0, 0]
    assert found[0].digest
    assert found[0].row_count == 1
    assert found[0].sampling == {"temperature": 1.0, "top_p": 1.0, "max_tokens": 2048}
    assert (found[0].policy, found[0].turns, found[0].completion_tokens) == ("m", 1, 20)
    assert found[0].calls[0]["name"] == "submit"
    kept = latest(tmp_path / "r.jsonl")
    assert {r.key for r in kept if r.valid} == {f"t/{n}" for n in range(6)}


def test_a_write_in_run_sql_counts_even_if_the_answer_is_right(draw, questions):
    def script(body):
        wrote = len(body["messages"]) > 2
        return submits(GOLD) if wrote else calls(("run_sql", {"sql": "DELETE FROM city"}))

    (rollout,), _ = draw(script, asked=questions[:1])
    assert (rollout.verdict, rollout.reward, rollout.write_attempts) == ("write", -1.0, 1)


def test_without_gold_submissions_are_executed_and_not_judged(draw, questions):
    (rollout, *_), _ = draw(lambda body: submits(GOLD), with_golds=False)
    assert (rollout.verdict, rollout.reward, rollout.status) == ("", None, "ok")
    assert rollout.digest
    broken, _ = draw(lambda body: fails(503), with_golds=False, revision="other")
    assert {r.verdict for r in broken} == {"infrastructure"}


def test_a_second_call_asks_nothing_and_a_wider_one_the_rest(draw):
    first, requests = draw(lambda body: submits(GOLD), samples=2)
    assert (len(first), requests) == (8, 8)
    again, requests = draw(lambda body: fails(500), samples=2)
    assert (again, requests) == (first, 0)
    wider, requests = draw(lambda body: submits("SELECT 1"), samples=3)
    assert requests == 4
    assert [r.verdict for r in wider[:3]] == ["match", "match", "wrong"]


@pytest.mark.parametrize(
    "change",
    [
        {"revision": "new"},
        {"settings": AgentSettings(max_turns=3)},
        {"sampling": Sampling(temperature=0.5)},
    ],
)
def test_rollouts_drawn_another_way_do_not_count(draw, change):
    draw(lambda body: submits(GOLD))
    found, requests = draw(lambda body: submits("SELECT 1"), **change)
    assert requests == 4
    assert {r.verdict for r in found} == {"wrong"}
    assert {r.verdict for r in draw(lambda body: fails(500))[0]} == {"match"}


def test_infrastructure_is_asked_again_and_the_valid_one_replaces_it(draw, tmp_path):
    found, _ = draw(lambda body: fails(503, "down") if number_of(body) % 2 else submits(GOLD))
    assert [r.verdict for r in found] == ["match", "infrastructure"] * 2
    assert "down" in found[1].error
    found, requests = draw(lambda body: submits(GOLD))
    assert ([r.verdict for r in found], requests) == (["match"] * 4, 2)
    assert [r.verdict for r in latest(tmp_path / "r.jsonl")] == ["match"] * 4


def test_lost_rollouts_are_retried_within_the_call_and_nothing_else_is(draw):
    lost = set()

    def script(body):
        number = number_of(body)
        if number < 2 and number not in lost:
            lost.add(number)
            return fails(400, "odd")
        return submits(GOLD)

    found, requests = draw(script, retries=1, durable=False)
    assert ([r.verdict for r in found], requests) == (["match"] * 4, 6)


def test_a_lost_rollout_counts_in_the_share(draw, questions):
    turns = iter(range(100))

    def script(body):
        return fails(400, "odd") if next(turns) < 6 else submits(GOLD)

    found, _ = draw(script, samples=8, asked=questions[:1], concurrency=8)
    winner = vote_of(found)
    assert (winner.votes, winner.k, winner.share) == (2, 8, 0.25)


def test_nothing_but_failures_ends_the_run(draw, questions, tmp_path):
    with pytest.raises(InfrastructureError, match="4 rollouts in a row failed"):
        draw(lambda body: fails(503), samples=8, concurrency=2)
    assert len(latest(tmp_path / "r.jsonl")) <= 6


def test_concurrency_is_bounded_and_progress_reported(draw):
    reported = []
    meeting = threading.Barrier(2, timeout=30)

    def script(body):
        return Step(submits(GOLD).body, meet=meeting)

    found, _ = draw(
        script, samples=3, concurrency=2, on_progress=lambda *numbers: reported.append(numbers)
    )
    assert len(found) == 12
    assert reported == [(n, 12) for n in range(13)]
    assert draw.peak == 2


def test_missing_material_costs_no_request(draw, questions, tmp_path, sandbox):
    gone = ask(tmp_path / "gone.db")
    with pytest.raises(Text2SqlError, match="no database"):
        draw(lambda body: pytest.fail("asked"), asked=[*questions, gone], with_golds=False)
    store = RolloutStore(tmp_path / "x.jsonl")
    policy = ServerPolicy("http://127.0.0.1:9", "m")
    plan = RolloutPlan(policy, sandbox, AgentSettings(), HOT, golds={})
    with pytest.raises(Text2SqlError, match="4 questions have no gold result, for example t/0"):
        asyncio.run(plan.draw(questions, store))


def test_single_turn_rollouts(draw, questions):
    settings = AgentSettings(mode="single_turn")
    found, _ = draw(lambda body: says(f"```sql\n{GOLD}\n```"), settings=settings)
    assert {(r.verdict, r.mode) for r in found} == {("match", "single_turn")}


def test_a_submission_is_kept_as_written_and_as_it_was_run(draw, questions):
    fenced, empty = f"```sql\n{GOLD}\n```", "```sql\n```"
    replies = [submits(fenced), submits(empty), says("I do not know.")]
    asked = [ask(questions[0].database, f"q {n}", key=f"t/{n}", sql=GOLD) for n in range(3)]
    found, _ = draw(lambda body: replies[number_of(body)], asked=asked)
    assert [(r.submitted, r.sql, r.verdict) for r in found] == [
        (fenced, GOLD, "match"),
        (empty, "", "no_submission"),
        (None, None, "no_submission"),
    ]


def test_a_torn_last_line_is_dropped(draw, tmp_path):
    path = tmp_path / "r.jsonl"
    draw(lambda body: submits(GOLD))
    whole = path.read_bytes()
    for cut in (1, 40, len(whole.splitlines()[-1])):
        path.write_bytes(whole[:-cut])
        assert len(latest(path)) == 3
        _, requests = draw(lambda body: submits(GOLD))
        assert requests == 1
        assert len(path.read_bytes().splitlines()) == 4


def test_a_file_of_something_else_is_named(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(Text2SqlError, match=r"r\.jsonl, line 1 is not a rollout"):
        latest(tmp_path / "r.jsonl")


def test_a_second_writer_is_refused(draw, tmp_path):
    found, _ = draw(lambda body: submits(GOLD))
    one, two = RolloutStore(tmp_path / "a.jsonl"), RolloutStore(tmp_path / "a.jsonl")
    one.append(found[0])
    with pytest.raises(Text2SqlError, match="Another process"):
        two.append(found[0])
    one.close()
    two.append(found[1])
    assert len(latest(two.path)) == 2


def test_strange_text_survives(draw, tmp_path):
    text = "line\u2028break \ud800 \x00 é"
    (rollout, *_), _ = draw(lambda body: calls(("submit", {"sql": f"SELECT '{text}'"})))
    assert latest(tmp_path / "r.jsonl")[0].sql == rollout.sql


CHILD = """
import asyncio, json, resource, sys
from tests.support.agent_databases import ask
from pathlib import Path
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import run_gold
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import ServerPolicy
from text2sql.rollouts.draw import RolloutPlan
from text2sql.rollouts.store import RolloutStore
from text2sql.sandbox import Sandbox
from text2sql.agent.settings import AgentSettings

url, database, path, limit = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
asked = [
    ask(Path(database), f"question {n}", key=f"t/{n}", sql="SELECT count(*) FROM city")
    for n in range(30)
]
async def draw(plan, store):
    try:
        await plan.draw(asked, store)
    finally:
        await plan.policy.close()

with Sandbox(1) as sandbox:
    golds = {q.key: run_gold(q, sandbox) for q in asked}
    policy = ServerPolicy(url, "m")
    try:
        plan = RolloutPlan(policy, sandbox, AgentSettings(), Sampling(temperature=1.0),
                           golds=golds, concurrency=3)
        asyncio.run(draw(plan, RolloutStore(Path(path))))
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
"""


def start_child(url, database, path, limit=0):
    arguments = [sys.executable, "-c", textwrap.dedent(CHILD), url, database, path, str(limit)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    return subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True)


def test_kill_9_loses_only_rollouts_in_flight(tmp_path, questions):
    path = tmp_path / "k.jsonl"
    answered = 0
    enough = threading.Event()

    def script(body):
        nonlocal answered
        answered += 1
        if answered >= 12:
            enough.set()
        return Step(submits(GOLD).body, wait=0.02)

    with ScriptedServer(script) as server:
        child = start_child(server.url, questions[0].database, path)
        assert enough.wait(60)
        child.send_signal(signal.SIGKILL)
        child.wait()
        asked_before = len(server.requests)
        kept = len(latest(path))
        assert kept >= asked_before - 2 * 3
        assert start_child(server.url, questions[0].database, path).wait(60) == 0
        assert len(server.requests) == asked_before + 30 - kept
    found = latest(path)
    assert len(found) == 30
    assert {r.verdict for r in found} == {"match"}
    assert len(path.read_text().splitlines()) == 30


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path, questions):
    path = tmp_path / "f.jsonl"
    with ScriptedServer(lambda body: submits(GOLD)) as server:
        child = start_child(server.url, questions[0].database, path, limit=20_000)
        assert child.wait(60) == 1
        message = child.stderr.read()
        assert message.startswith("error: A rollout cannot be written to")
        assert len(message.strip().splitlines()) == 1
        lines = path.read_bytes()
        assert lines.endswith(b"\n")
        kept = [json.loads(line) for line in lines.splitlines()]
        assert 3 < len(kept) < 30
        assert start_child(server.url, questions[0].database, path).wait(60) == 0
    assert len(latest(path)) == 30
