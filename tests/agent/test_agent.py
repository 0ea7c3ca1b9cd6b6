"""The chat loop against a real server that replays a script, on a real database."""

import asyncio
import json

import pytest

from tests.support.agent_databases import ask, make_database
from tests.support.scripted_server import ScriptedServer, calls, completion, fails, says, submits
from text2sql.agent.loop import run_episode
from text2sql.agent.prompts import (
    AGENT_INSTRUCTIONS,
    NUDGE,
    SINGLE_TURN_INSTRUCTIONS,
    opening_messages,
    prompt_revision,
    sql_in,
)
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tools import MOST_CALLS
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import Retry, ServerPolicy

QUERY = "SELECT count(*) FROM city"
XML = f"<tool_call>\n<function=submit>\n<parameter=sql>\n{QUERY}\n</parameter>\n</function>\n"


@pytest.fixture
def play(tmp_path, sandbox):
    """Run one episode against a script; returns it and what the server was sent."""
    database = make_database(tmp_path / "shop.db")

    def run(*script, settings=None, sampling=None, question=None):
        async def episode(url):
            policy = ServerPolicy(url, "scripted", retry=Retry(attempts=2, first_wait=0.01))
            try:
                return await run_episode(
                    question or ask(database),
                    policy,
                    sandbox,
                    settings or AgentSettings(),
                    sampling or Sampling(),
                )
            finally:
                await policy.close()

        with ScriptedServer(script) as server:
            return asyncio.run(episode(server.url)), server.requests

    run.database = database
    return run


def tool_texts(episode):
    return [message["content"] for message in episode.messages if message["role"] == "tool"]


def test_explore_then_submit(play):
    episode, requests = play(
        calls(("inspect_schema", {})), calls(("run_sql", {"sql": QUERY})), submits(QUERY)
    )
    assert (episode.sql, episode.stop_reason, episode.turns) == (QUERY, "submit", 3)
    assert (episode.prompt_tokens, episode.completion_tokens) == (30, 60)
    assert tool_texts(episode)[1:] == ["count(*)\n3\n(1 row)", "submitted"]
    assert [record.name for record in episode.tool_log] == ["inspect_schema", "run_sql", "submit"]
    assert requests[0]["tools"][0]["function"]["name"] == "inspect_schema"
    assert requests[2]["messages"] == episode.messages[:6]


def test_of_a_turn_that_repeats_itself_only_the_first_looks_and_the_submit_are_carried_out(play):
    looks = [("run_sql", {"sql": "SELECT 1"})] * 40
    episode, requests = play(calls(*looks), calls(*looks, ("submit", {"sql": QUERY})))
    assert (episode.sql, episode.stop_reason, episode.turns) == (QUERY, "submit", 2)
    statuses = [record.status for record in episode.tool_log]
    looked = ["ok"] * MOST_CALLS + ["ignored"] * (40 - MOST_CALLS)
    assert statuses == [*looked, *looked, "ok"]
    assert len(requests[1]["messages"]) == 3 + 40
    assert "at most 16 calls; call it again" in requests[1]["messages"][-1]["content"]


def test_several_calls_in_a_turn_run_in_order_and_none_after_submit(play):
    episode, _ = play(
        calls(
            ("run_sql", {"sql": "SELECT 1"}),
            ("submit", {"sql": "SELECT 2"}),
            ("run_sql", {"sql": "DROP TABLE city"}),
        )
    )
    assert (episode.sql, episode.stop_reason) == ("SELECT 2", "submit")
    assert episode.write_attempts == 0
    assert [m["tool_call_id"] for m in episode.messages if m["role"] == "tool"] == [
        "c0",
        "c1",
        "c2",
    ]
    assert [record.status for record in episode.tool_log] == ["ok", "ok", "ignored"]


def test_mistakes_go_back_and_the_episode_goes_on(play):
    episode, requests = play(
        calls(("execute_sql", {"query": "SELECT 1"})),
        calls(("run_sql", {"query": "SELECT 1"})),
        calls(("run_sql", "{nonsense")),
        calls(("run_sql", {"sql": "DROP TABLE city"})),
        submits(QUERY),
    )
    texts = tool_texts(episode)
    assert "unknown tool execute_sql; available: inspect_schema, sample_rows" in texts[0]
    assert "missing argument sql" in texts[1]
    assert "not a complete JSON object" in texts[2]
    assert texts[3].startswith("refused: DROP would change the database")
    assert (episode.stop_reason, episode.write_attempts) == ("submit", 1)
    for message in requests[-1]["messages"]:
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_calls_that_the_server_left_in_the_content(play):
    episode, requests = play(says(f"Let me see.\n{XML.replace('submit', 'run_sql')}"), says(XML))
    assert (episode.sql, episode.stop_reason) == (QUERY, "submit")
    sent = requests[1]["messages"][2]
    assert sent["content"] == "Let me see."
    assert sent["tool_calls"][0]["function"]["name"] == "run_sql"


def test_reasoning_goes_back_unchanged_and_is_never_an_answer(play):
    thought = "  think\n<tool_call> about it "
    episode, requests = play(
        calls(("run_sql", {"sql": QUERY}), reasoning=thought),
        says(None, reasoning="The answer is 42."),
        says(None, reasoning="The answer is 42."),
    )
    assert requests[1]["messages"][2]["reasoning"] == thought
    assert (episode.sql, episode.stop_reason) == (None, "no_action")


def test_one_nudge_then_no_action(play):
    episode, requests = play(says("There are 3."), says("Really 3."))
    assert requests[1]["messages"][-1] == {"role": "user", "content": NUDGE}
    assert (episode.stop_reason, episode.turns, episode.sql) == ("no_action", 2, None)


def test_a_call_in_a_thought_that_is_never_closed_is_none(play):
    thought = f"<think>\nI submit it.\n{XML}"
    episode, requests = play(says(thought), says(thought))
    assert requests[1]["messages"][-1] == {"role": "user", "content": NUDGE}
    assert (episode.stop_reason, episode.sql, episode.tool_log) == ("no_action", None, [])


def test_a_nudge_that_helps(play):
    episode, _ = play(says(""), submits(QUERY))
    assert episode.stop_reason == "submit"


def test_an_empty_list_of_calls_with_that_finish_reason(play):
    empty = completion({"content": "", "tool_calls": []}, "tool_calls")
    assert play(empty, empty)[0].stop_reason == "no_action"
    left = completion({"content": XML, "tool_calls": []}, "tool_calls")
    assert play(left)[0].sql == QUERY


def cut_call(arguments):
    function = {"name": "submit", "arguments": arguments}
    message = {"content": None, "tool_calls": [{"id": "c", "function": function}]}
    return completion(message, "tool_calls", used=64)


@pytest.mark.parametrize(
    "step",
    [
        completion({"content": None, "reasoning": "Let me think"}, "length"),
        completion({"content": XML}, "length"),
        cut_call('{"sql": "DELETE FROM city WHERE'),
        cut_call("{}"),
    ],
)
def test_a_truncated_call_is_not_executed(play, step):
    episode, _ = play(step, sampling=Sampling(max_tokens=64))
    assert (episode.stop_reason, episode.sql, episode.tool_log) == ("truncated", None, [])


def test_the_last_allowed_token_may_finish_a_call(play):
    whole = calls(("submit", {"sql": QUERY}))
    body = json.loads(whole.body) | {"usage": {"prompt_tokens": 1, "completion_tokens": 64}}
    step = whole.__class__(json.dumps(body).encode())
    assert play(step, sampling=Sampling(max_tokens=64))[0].sql == QUERY


def test_the_turn_limit(play):
    script = [calls(("run_sql", {"sql": QUERY}))] * 5
    episode, requests = play(*script, settings=AgentSettings(max_turns=3))
    assert (episode.stop_reason, episode.turns, len(requests)) == ("turn_limit", 3, 3)


LONG = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<50) SELECT i,'{}' FROM n"
)
OVERFLOW = fails(
    400, "This model's maximum context length is 16384 tokens. However, you requested 17210 tokens"
)


def test_an_overflow_shortens_old_results_once(play):
    first, second = (calls(("run_sql", {"sql": LONG.format(letter * 40)})) for letter in "ab")
    episode, requests = play(first, second, OVERFLOW, submits(QUERY))
    assert episode.stop_reason == "submit"
    old, new = (m["content"] for m in requests[3]["messages"] if m["role"] == "tool")
    assert old.endswith("... [cut to make room]")
    assert len(old) < 400
    assert "b" * 40 in new
    assert len(new) > 2000


def test_a_second_overflow_ends_the_episode(play):
    step = calls(("run_sql", {"sql": LONG.format("a" * 40)}))
    episode, requests = play(step, OVERFLOW, OVERFLOW, OVERFLOW)
    assert (episode.stop_reason, episode.sql, len(requests)) == ("context_exceeded", None, 3)


def test_an_overflow_with_nothing_to_shorten_is_not_sent_again(play):
    episode, requests = play(OVERFLOW, OVERFLOW)
    assert (episode.stop_reason, len(requests)) == ("context_exceeded", 1)


def test_a_server_that_fails_makes_the_episode_invalid(play):
    episode, requests = play(calls(("run_sql", {"sql": QUERY})), *[fails(503, "down")] * 9)
    assert (episode.stop_reason, episode.sql) == ("infrastructure", None)
    assert "down" in episode.error
    assert len(requests) == 3


def test_evidence_is_shown_only_if_present(play):
    _, requests = play(submits(QUERY), question=ask(play.database, evidence="  a city is a town "))
    assert requests[0]["messages"][1]["content"].endswith("\n\nEvidence: a city is a town")
    for evidence in ("", "  "):
        _, requests = play(submits(QUERY), question=ask(play.database, evidence=evidence))
        assert requests[0]["messages"][1]["content"] == "How many cities are there?"
    hidden = opening_messages(ask(play.database, evidence="x"), AgentSettings(evidence=False))
    assert "Evidence" not in hidden[1]["content"]


def test_single_turn_shows_the_schema_and_takes_the_sql(play):
    settings = AgentSettings(mode="single_turn")
    episode, requests = play(says(f"Sure:\n```sql\n{QUERY}\n```\nDone."), settings=settings)
    assert (episode.sql, episode.stop_reason, episode.turns) == (QUERY, "submit", 1)
    assert "tools" not in requests[0]
    assert "city(id INTEGER PK, name TEXT) 3 rows" in requests[0]["messages"][1]["content"]
    assert play(says("I cannot."), settings=settings)[0].stop_reason == "no_action"
    assert play(submits(QUERY), settings=settings)[0].sql == QUERY
    assert play(calls(("run_sql", {"sql": QUERY})), settings=settings)[0].sql is None
    tagged = "<tool_call>\n<function=submit>\n<parameter=sql>\n{}\n</parameter>\n</function>"
    assert play(says(tagged.format(QUERY)), settings=settings)[0].sql == QUERY
    cut = completion({"content": f"```sql\n{QUERY[:9]}"}, "length")
    assert play(cut, settings=settings)[0].stop_reason == "truncated"
    assert play(OVERFLOW, settings=settings)[0].stop_reason == "context_exceeded"


@pytest.mark.parametrize(
    "text, sql",
    [
        ("<think>\n```sql\nSELECT 1\n```", ""),
        ("<think>a</think>\n<think>\nSELECT 2", ""),
        ("a</think>\nSELECT 2</think>", ""),
        ("<thinking>\nSELECT 1\n</thinking>\nSELECT 2", "SELECT 2"),
        ("```sql\nSELECT '</think>'\n```", "SELECT '</think>'"),
        ("SELECT 1<|im_end|>", "SELECT 1"),
        ("SELECT 1", "SELECT 1"),
        ("The query is:\nSELECT 1\nFROM t", "SELECT 1\nFROM t"),
        ("```\nSELECT 1\n```", "SELECT 1"),
        ("```sql\nSELECT 1\n```\nbetter:\n```sqlite\nSELECT 2\n```", "SELECT 2"),
        ("```sql\nSELECT 1", "SELECT 1"),
        ("<think>```sql\nSELECT 0\n```</think>\nSELECT 1", "SELECT 1"),
        (
            "With these tables I can answer.\nWITH a AS (SELECT 1) SELECT * FROM a",
            "WITH a AS (SELECT 1) SELECT * FROM a",
        ),
        ("DELETE FROM t; SELECT 1", "DELETE FROM t; SELECT 1"),
        ("```python\nprint(1)\n```", ""),
        ("```sql\nSELECT 1\n```\nIt returns:\n```\n1\n```", "SELECT 1"),
        ("SELECT 1\n```\nIt returns 1.", "SELECT 1"),
        ("```mysql\nSELECT 1\n```", "SELECT 1"),
        ("```sql\n-- all\nSELECT 1\n```", "-- all\nSELECT 1"),
        ("```sql\nSELEC 1\n```", "SELEC 1"),
        ("```SELECT 1```", "SELECT 1"),
        ("Here: ```sql SELECT 1``` as asked.\nIt returns 1.", "SELECT 1"),
        ("I do not know.", ""),
        ("", ""),
    ],
)
def test_sql_in_a_reply(text, sql):
    assert sql_in(text) == sql


def test_sql_in_takes_linear_time_on_hostile_text():
    for text in ("```" + "a" * 100_000, "```" + " " * 100_000 + "x```", "``` " * 30_000):
        assert sql_in(text) == ""


def test_prompts_hold_no_markers_and_have_a_revision():
    for text in (AGENT_INSTRUCTIONS, SINGLE_TURN_INSTRUCTIONS, NUDGE):
        assert "<" not in text
    one = prompt_revision(AgentSettings())
    assert one == prompt_revision(AgentSettings())
    assert one != prompt_revision(AgentSettings(max_turns=3))
