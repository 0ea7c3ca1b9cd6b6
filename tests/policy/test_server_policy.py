"""The client against a real server that fails in every way it can."""

import asyncio
import email.utils
import json
import logging
import socket
import time

import pytest

from tests.support.scripted_server import (
    ScriptedServer,
    Step,
    calls,
    completion,
    fails,
    replay,
    says,
)
from text2sql.agent.tool_calls import TOOL_SCHEMAS
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow, Sampling
from text2sql.policy.open import open_policy, policy_directory, served_models
from text2sql.policy.served import replies
from text2sql.policy.served.address import api_roots, below
from text2sql.policy.served.server import Retry, ServerPolicy
from text2sql.policy.weights import directory_revision

QUICK = Retry(attempts=4, first_wait=0.005, longest_wait=0.02, total_seconds=20)
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]


def complete(*script, retry=QUICK, sampling=None, **options):
    """Ask once; returns the reply and the server."""

    async def run(url):
        policy = ServerPolicy(url, "scripted", retry=retry, **options)
        try:
            return await policy.complete(MESSAGES, TOOL_SCHEMAS, sampling or Sampling())
        finally:
            await policy.close()

    with ScriptedServer(script) as server:
        return asyncio.run(run(server.url)), server


def ask(policy):
    """Ask once, in an event loop of its own."""

    async def run():
        try:
            return await policy.complete(MESSAGES, [], Sampling())
        finally:
            await policy.close()

    return asyncio.run(run())


def test_the_request():
    sampling = Sampling(temperature=0.7, top_p=0.9, max_tokens=99)
    _, server = complete(says("x"), sampling=sampling, api_key="secret")
    (request,) = server.requests
    assert request.pop("tools") == TOOL_SCHEMAS
    assert request == {
        "model": "scripted",
        "messages": MESSAGES,
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 99,
    }
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_a_reply_with_calls():
    reply, _ = complete(calls(("run_sql", {"sql": "SELECT 1"}), reasoning="hm"))
    assert reply.finish_reason == "tool_calls"
    assert (reply.prompt_tokens, reply.completion_tokens, reply.truncated) == (10, 20, False)
    assert reply.tool_calls[0].arguments == '{"sql": "SELECT 1"}'
    assert reply.message["reasoning"] == "hm"


@pytest.mark.parametrize("arguments", ["{broken", "[1]", "5", '"text"'])
def test_history_arguments_are_always_an_object(arguments):
    reply, _ = complete(calls(("run_sql", arguments)))
    assert reply.tool_calls[0].arguments == arguments
    assert reply.message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_arguments_that_came_as_an_object_become_text():
    function = {"name": "run_sql", "arguments": {"sql": "SELECT 1"}}
    reply, _ = complete(completion({"content": None, "tool_calls": [{"function": function}]}))
    assert json.loads(reply.tool_calls[0].arguments) == {"sql": "SELECT 1"}
    assert reply.tool_calls[0].id


def test_two_calls_with_one_identifier_get_two():
    entry = {"id": "same", "function": {"name": "run_sql", "arguments": "{}"}}
    reply, _ = complete(completion({"content": None, "tool_calls": [entry, entry]}))
    assert len({call.id for call in reply.tool_calls}) == 2


def test_the_wrong_parser_is_named_once(caplog, monkeypatch):
    monkeypatch.setattr(replies, "_warned", set())
    left = says(
        "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</parameter>\n"
        "</function>\n</tool_call>"
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reply, _ = complete(left)
    assert [call.name for call in reply.tool_calls] == ["run_sql"]
    assert reply.content == ""
    assert [record.message.count("--tool-call-parser") for record in caplog.records] == [1]


def test_words_about_markers_are_plain_text():
    text = 'The literal token "<tool_call>" means a call follows.'
    reply, _ = complete(says(text))
    assert (reply.tool_calls, reply.content) == ((), text)


@pytest.mark.parametrize(
    "failure",
    [
        fails(408),
        fails(429),
        fails(500, "EngineCore encountered an issue"),
        fails(502),
        fails(503),
        Step(drop=True),
        Step(b"<html>garbage", headers={"Content-Type": "text/html"}),
        Step(b"\xff\xfe\x00"),
        Step(b'{"choices": ['),
        replay({"choices": []}),
        replay({"choices": [{"message": None}]}),
        replay([1]),
        replay({"error": {"message": "queue full", "code": 503}}),
        Step(b'data: {"error": {"message": "queue full", "code": 503}}\n\ndata: [DONE]\n\n'),
    ],
)
def test_temporary_failures_are_retried(failure):
    reply, server = complete(failure, failure, says("fine"))
    assert reply.content == "fine"
    assert len(server.requests) == 3
    assert server.requests[0] == server.requests[2]


def test_the_last_failure_is_named():
    event = Step(b'data: {"error": {"message": "queue full", "code": 503}}\n\ndata: [DONE]\n\n')
    with pytest.raises(InfrastructureError, match="4 tries: queue full"):
        complete(*[event] * 4)


def test_a_dead_engine_is_asked_a_bounded_number_of_times():
    script = [fails(500, "EngineCore encountered an issue")] * 9
    with ScriptedServer(script) as server:
        policy = ServerPolicy(server.url, "m", retry=QUICK)
        with pytest.raises(InfrastructureError, match="HTTP 500: EngineCore"):
            ask(policy)
        assert len(server.requests) == 4


def test_a_server_that_stalls():
    with pytest.raises(InfrastructureError, match="no answer within"):
        complete(*[Step(wait=5)] * 2, retry=Retry(2, 0.01), request_seconds=0.1)


def test_connection_refused():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    policy = ServerPolicy(url, "m", retry=QUICK)
    with pytest.raises(InfrastructureError, match="gave no reply"):
        ask(policy)
    with pytest.raises(InfrastructureError, match="No policy server answers"):
        open_policy(url)


def test_retry_after_is_obeyed():
    started = time.monotonic()
    complete(fails(429, retry_after="1"), says("x"))
    assert time.monotonic() - started >= 1
    date = email.utils.formatdate(time.time() + 2, usegmt=True)
    started = time.monotonic()
    complete(fails(503, retry_after=date), says("x"))
    assert time.monotonic() - started >= 0.9


def test_a_wait_beyond_the_total_is_not_begun():
    with pytest.raises(InfrastructureError, match=r"1 try: HTTP 429: no; it asks .* 60 s"):
        complete(fails(429, retry_after="3600"), says("x"))


def test_a_wait_that_one_server_asks_for_keeps_no_other_from_answering():
    busy, free = fails(429, retry_after="3600"), says("x")
    with ScriptedServer(lambda body: busy) as a, ScriptedServer([fails(502), free]) as b:
        policy = ServerPolicy([a.url, b.url], "m", retry=QUICK)
        assert ask(policy).content == "x"
        assert (len(a.requests), len(b.requests)) == (1, 2)


def test_the_server_that_is_free_first_is_waited_for():
    with (
        ScriptedServer([fails(429, retry_after="3600")]) as a,
        ScriptedServer([fails(429, retry_after="0.2"), says("x")]) as b,
    ):
        assert ask(ServerPolicy([a.url, b.url], "m", retry=QUICK)).content == "x"


def test_milliseconds_that_a_server_asks_for_are_obeyed():
    busy = fails(429, retry_after_ms="3600000")
    with pytest.raises(InfrastructureError, match=r"it asks for a wait of 60 s"):
        complete(busy, says("x"))
    both = fails(429, retry_after="0", retry_after_ms="3600000")
    assert complete(both, says("x"))[0].content == "x"


@pytest.mark.parametrize("header", ["soon", "", "Wed, 99 Foo", "nan", "inf", "1e400"])
def test_a_retry_after_that_says_nothing(header):
    assert complete(fails(429, retry_after=header), says("x"))[0].content == "x"


def test_too_long_is_not_tried_again():
    message = "This model's maximum context length is 16384 tokens. However, you requested 17210"
    with ScriptedServer([fails(400, message), says("x")]) as server:
        policy = ServerPolicy(server.url, "m", retry=QUICK)
        with pytest.raises(ContextOverflow):
            ask(policy)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "failure, kind, words",
    [
        (fails(401), Text2SqlError, "refused the key.*set TEXT2SQL_API_KEY"),
        (fails(404, "no model x"), Text2SqlError, "no model x"),
        (fails(500, "tools param requires --jinja flag"), Text2SqlError, "cannot call tools"),
        (fails(404, "No endpoints that support tool use"), Text2SqlError, "cannot call tools"),
        (
            fails(400, '"auto" tool choice requires --enable-auto-tool-choice'),
            Text2SqlError,
            "cannot call tools",
        ),
        (fails(400, "bad message"), InfrastructureError, "bad message"),
        (fails(422, "bad field"), InfrastructureError, "bad field"),
    ],
)
def test_permanent_failures_are_not_retried(failure, kind, words):
    with ScriptedServer([failure, says("x")]) as server:
        policy = ServerPolicy(server.url, "m", retry=QUICK)
        with pytest.raises(kind, match=words):
            ask(policy)
        assert len(server.requests) == 1


def test_several_servers_are_used_evenly_and_conversations_stay():
    with ScriptedServer(lambda body: says("x")) as a, ScriptedServer(lambda body: says("y")) as b:
        policy = ServerPolicy([a.url, b.url], "m", retry=QUICK)

        async def ask(number):
            opening = [MESSAGES[0], {"role": "user", "content": f"question {number}"}]
            first = await policy.complete(opening, [], Sampling())
            second = await policy.complete([*opening, first.message], [], Sampling())
            return first.content == second.content

        async def ask_all():
            same = [await ask(number) for number in range(10)]
            await policy.close()
            return same

        assert all(asyncio.run(ask_all()))
        assert len(a.requests) == len(b.requests) == 10


def test_another_server_steps_in():
    down = ScriptedServer(lambda body: fails(503))
    with down, ScriptedServer(lambda body: says("up")) as up:
        policy = ServerPolicy([down.url, up.url], "m", retry=QUICK)
        for _ in range(2):  # a new event loop each time
            reply = ask(policy)
            assert reply.content == "up"


def test_many_at_once_with_faults_all_end_well():
    turn = iter(range(10_000))
    faults = [fails(500), Step(drop=True), Step(b"garbage"), fails(429, retry_after="0")]

    def script(body):
        number = next(turn)
        return faults[number // 5 % 4] if number % 5 == 0 else says(body["messages"][1]["content"])

    async def ask_all(url):
        policy = ServerPolicy(url, "m", retry=Retry(10, 0.005, 0.02, 30))

        async def ask(number):
            messages = [MESSAGES[0], {"role": "user", "content": str(number)}]
            return (await policy.complete(messages, [], Sampling())).content

        try:
            return await asyncio.gather(*(ask(number) for number in range(100)))
        finally:
            await policy.close()

    with ScriptedServer(script) as server:
        assert asyncio.run(ask_all(server.url)) == [str(number) for number in range(100)]


def test_opening_a_server():
    with ScriptedServer([], models=["one"]) as server:
        policy = open_policy(server.url)
        assert policy.info.name == "one"
        assert (
            policy.info.revision == open_policy(server.url.removesuffix("/v1"), "one").info.revision
        )
        assert served_models(server.url) == {"one": "/m/one"}
        with pytest.raises(Text2SqlError, match=r"no model 'two'; it has: one"):
            open_policy(server.url, "two")
    with (
        ScriptedServer([], models=["one", "two"]) as server,
        pytest.raises(Text2SqlError, match=r"several models.*one, two"),
    ):
        open_policy(server.url)
    with (
        ScriptedServer([], models=[]) as server,
        pytest.raises(Text2SqlError, match="no list of models"),
    ):
        open_policy(server.url)


def test_a_server_that_speaks_something_else():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        import threading

        def greet():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail ready\r\n")

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(InfrastructureError, match="No policy server answers"):
            open_policy(f"http://127.0.0.1:{listening.getsockname()[1]}")


@pytest.mark.parametrize("spec", ["/no/such/place", "http://", "https://host:port/", "nothing"])
def test_specifications_that_lead_nowhere(spec):
    with pytest.raises(Text2SqlError) as caught:
        open_policy(spec)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "address", ["http://h/v1?key=hush", "http://me:hush@h:99999/v1", "http://me:hush@[::1/v1"]
)
def test_an_invalid_address_is_shown_without_its_secret(address):
    with pytest.raises(Text2SqlError, match=r"is not the address of a server") as caught:
        open_policy(address)
    assert "hush" not in str(caught.value)


def test_addresses():
    assert api_roots("http://h:1") == api_roots("http://h:1/v1/") == ["http://h:1/v1"]
    assert api_roots("https://h/x/v1/chat/completions") == ["https://h/x/v1"]
    assert api_roots(" http://h/v1/models ") == api_roots("http://h/v1/completions")
    given = "https://h/v1beta/openai"
    assert api_roots(f"{given}/") == [given, f"{given}/v1"]
    azure = "https://h/openai/deployments/d/chat/completions?api-version=2024-10-21"
    assert api_roots(azure) == ["https://h/openai/deployments/d?api-version=2024-10-21"]
    assert below(api_roots(azure)[0], "chat/completions") == azure
    assert policy_directory("http://h") is None
    assert policy_directory("pocket").name == "policy"
    with pytest.raises(Text2SqlError, match="contains a name or password") as caught:
        api_roots("https://me:secret@host/v1")
    assert "secret" not in str(caught.value)


def test_the_revision_of_a_directory(tmp_path):
    with pytest.raises(Text2SqlError, match=r"no \*\.safetensors"):
        directory_revision(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text("{}")
    first = directory_revision(tmp_path)
    (tmp_path / "optimizer.pt").write_bytes(b"x")
    assert directory_revision(tmp_path) == first
    (tmp_path / "agent_config.json").write_text("{}")
    second = directory_revision(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"Weights")
    assert len({first, second, directory_revision(tmp_path)}) == 3
    assert len(first) == 16
