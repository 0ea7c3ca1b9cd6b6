"""Servers of other makes, each as strict and as odd as the real one: whole rollouts and doctor."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import Callable

import pytest

from tests.support.agent_databases import ask, make_database
from tests.support.scripted_server import ScriptedServer, Step, calls, completion, fails, says
from text2sql.agent.loop import run_episode
from text2sql.agent.prompts import LAST_TURN
from text2sql.agent.settings import AgentSettings
from text2sql.cli.doctor.finding import State
from text2sql.cli.doctor.policy import check_policy
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow, Sampling
from text2sql.policy.open import find_api, open_policy
from text2sql.policy.served.connections import fetch
from text2sql.policy.served.replies import NO_TEXT
from text2sql.policy.served.server import Retry, ServerPolicy

QUICK = Retry(attempts=3, first_wait=0.005, longest_wait=0.01, total_seconds=20)
LOOKS = [("inspect_schema", {}), ("run_sql", {"sql": "SELECT count(*) FROM city"})]
FINAL = ("submit", {"sql": "SELECT count(*) FROM city"})
Make = Callable[[dict], Step]


def two_turns(body, **extra):
    """Look with two calls, then submit."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    return calls(*(LOOKS if turn == 0 else [FINAL]), **extra)


def changed(step, **fields):
    """Give each call of a reply these fields."""
    answer = json.loads(step.body)
    for call in answer["choices"][0]["message"]["tool_calls"]:
        call |= fields
    return Step(json.dumps(answer).encode())


def gemini(body):
    signed = {"extra_content": {"google": {"thought_signature": "SIG"}}}
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            if call.get("extra_content") != signed["extra_content"]:
                return fails(400, "Function call is missing a thought_signature")
    return changed(two_turns(body), **signed)


def gateway(body):
    """A router that keeps the signature under another name, on the message too."""
    fields = {"provider_specific_fields": {"thought_signature": "SIG"}}
    for message in body["messages"]:
        if message["role"] == "assistant" and not fields.items() <= message.items():
            return fails(400, "thought signature is missing")
    return changed(two_turns(body, **fields), **fields)


def reasoning_model(body):
    if "max_tokens" in body:
        return fails(400, "Unsupported parameter: use 'max_completion_tokens' instead.")
    if "temperature" in body:
        return fails(
            400,
            "Unsupported value: 'temperature' does not support 0.0 with this model. Only the "
            "default (1) value is supported.",
        )
    if "top_p" in body:
        return fails(400, "Unsupported parameter: 'top_p' is not supported with this model.")
    return two_turns(body)


def kimi(body):
    if body.get("temperature", 1) != 1:
        return fails(400, "invalid temperature: only 1 is allowed for this model")
    return two_turns(body)


def mistral(body):
    known = {"role", "content", "tool_calls", "tool_call_id"}
    for place, message in enumerate(body["messages"]):
        if unknown := set(message) - known:
            return fails(422, f"body.messages.{place}.{unknown.pop()}: Extra inputs not permitted")
        for call in message.get("tool_calls", ()):
            if len(call["id"]) != 9 or not call["id"].isalnum():
                return fails(400, "Tool call id must be a-z, A-Z, 0-9, with a length of 9.")
    return changed(two_turns(body, annotations=[{"title": "x"}]), id=None)


def bedrock(body):
    if any(message["content"] == "" for message in body["messages"]):
        return fails(400, "messages: text content blocks must be non-empty")
    return two_turns(body)


def no_system(body):
    if body["messages"][0]["role"] == "system":
        return fails(400, "Developer instruction is not enabled; system prompt not supported")
    return two_turns(body)


def groq():
    failed = {
        "message": "Failed to call a function.",
        "code": "tool_use_failed",
        "failed_generation": '<function=run_sql>{"sql": "SELECT count(*) FROM city"}</function>',
    }
    broken = Step(json.dumps({"error": failed}).encode(), 400)
    return iter([broken, broken, calls(FINAL)])


def ollama():
    message = "error parsing tool call: raw='I think', err=invalid character 'I'"
    return iter([fails(500, message), fails(500, message), calls(FINAL)])


def strange():
    return iter([fails(400, "tool call validation failed: no tool 'look'"), calls(FINAL)])


MAKES: dict[str, Callable[[], Make]] = {
    **{make.__name__: lambda make=make: make
       for make in (gemini, gateway, reasoning_model, kimi, mistral, bedrock, no_system)},
    **{make.__name__: lambda make=make: (lambda steps: lambda body: next(steps))(make())
       for make in (groq, ollama, strange)},
}  # fmt: skip


@pytest.fixture
def play(sandbox, tmp_path):
    """Play rollouts with a server's script at one policy; returns the episodes and the server."""
    database = make_database(tmp_path / "shop.db")

    def run(script, count=1, settings=None, temperature=0.0, retry=QUICK):
        async def episodes(url):
            policy = ServerPolicy(url, "scripted", retry=retry)
            sampling = Sampling(temperature=temperature, max_tokens=64)
            question = ask(database)
            try:
                return [
                    await run_episode(
                        question, policy, sandbox, settings or AgentSettings(), sampling
                    )
                    for _ in range(count)
                ]
            finally:
                await policy.close()

        with ScriptedServer(script) as server:
            return asyncio.run(episodes(server.url)), server

    return run


@pytest.mark.parametrize("name", MAKES)
def test_a_rollout_ends_with_a_submission_whatever_the_make(name, play):
    (episode,), _ = play(MAKES[name]())
    assert (episode.stop_reason, episode.sql) == ("submit", FINAL[1]["sql"]), episode.error


@pytest.mark.parametrize("name", ["reasoning_model", "kimi", "mistral", "bedrock", "no_system"])
def test_what_one_rollout_learns_the_next_one_knows(name, play, caplog):
    episodes, server = play(MAKES[name](), count=3)
    assert [episode.stop_reason for episode in episodes] == ["submit"] * 3
    refused = len(server.requests) - 6
    assert 1 <= refused <= 3
    assert len(caplog.records) == refused  # each adaptation is said once


@pytest.mark.parametrize("name", ["gemini", "gateway", "reasoning_model", "kimi", "bedrock"])
def test_doctor_plays_two_turns_with_every_make(name):
    with ScriptedServer(MAKES[name]()) as server:
        found = {one.check: one for one in check_policy(server.url, None)}
    assert found["tool calls"].state is found["second turn"].state is State.OK
    assert ("adaptations" in found) == (name not in ("gemini", "gateway"))


def test_fields_of_a_streamed_call_go_back(play):
    part = {
        "index": 0, "id": "a", "type": "function", "extra_content": {"google": "SIG"},
        "function": {"name": "inspect_schema", "arguments": "{}"},
    }  # fmt: skip
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [part]}}]},
        {"choices": [{"index": 0, "delta": {"signature": "S"}, "finish_reason": "tool_calls"}]},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    _, server = play([Step(body.encode()), calls(FINAL)])
    reply = server.requests[1]["messages"][2]
    assert reply["signature"] == "S"
    assert reply["tool_calls"][0]["extra_content"] == {"google": "SIG"}
    assert set(reply["tool_calls"][0]) == {"id", "type", "function", "extra_content"}


@pytest.mark.parametrize(
    "given, at, models",
    [
        ("/v1beta/openai", "/v1beta/openai/chat/completions", True),
        ("/serving-endpoints/", "/serving-endpoints/chat/completions", False),
        ("/inference", "/inference/chat/completions", False),
        ("/proxy", "/proxy/v1/chat/completions", True),
        ("/proxy", "/proxy/v1/chat/completions", False),
        ("", "/v1/chat/completions", False),
        ("/d/chat/completions?api-version=1", "/d/chat/completions?api-version=1", False),
        ("/v1/chat/completions", "/v1/chat/completions", True),
    ],
)
def test_addresses_of_other_makes(given, at, models):
    names = ("scripted",) if models else ()
    with ScriptedServer(lambda body: says("fine"), models=names, at=at) as server:
        policy = open_policy(server.origin + given, "scripted")

        async def twice():
            try:
                return [await policy.complete([{"role": "user", "content": "q"}], [], Sampling())
                        for _ in range(2)]  # fmt: skip
            finally:
                await policy.close()

        assert [reply.content for reply in asyncio.run(twice())] == ["fine", "fine"]
        assert server.paths[-2:] == [at, at]
        if not models:
            with pytest.raises(Text2SqlError, match="name the model with --model"):
                open_policy(server.origin + given)


@pytest.mark.parametrize(
    "words",
    [
        "Only temperature=1 is supported",
        "`temperature` may only be set to 1 when thinking is enabled",
        "temperature must be 1 for this model",
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "`temperature` must be strictly positive",
        "temperature is deprecated for this model",
    ],
)
def test_however_a_temperature_is_refused(words, play):
    script = lambda body: fails(400, words) if "temperature" in body else two_turns(body)  # noqa: E731
    (episode,), server = play(script)
    assert episode.stop_reason == "submit" and len(server.requests) == 3


def test_a_temperature_out_of_range_is_the_users_to_fix(play):
    (episode,), _ = play(lambda body: fails(400, "temperature must be between 0 and 1"))
    assert episode.stop_reason == "infrastructure" and "between 0 and 1" in episode.error


def test_thoughts_alone_never_leave_an_empty_message(play):
    def script(body):
        if any(not (message.get("content") or "").strip() for message in body["messages"]):
            return fails(400, "assistant message must not be empty")
        turn = len(body["messages"])
        return completion({"content": "", "reasoning": "hm"}) if turn == 2 else calls(FINAL)

    (episode,), server = play(script)
    assert episode.stop_reason == "submit"
    assert server.requests[1]["messages"][2] == {
        "role": "assistant", "content": NO_TEXT, "reasoning": "hm",
    }  # fmt: skip


def test_a_thought_in_the_text_moves_to_its_field(play):
    first = calls(("inspect_schema", {}), content="<think>\nI look.\n</think>\n\nLet me see.")
    (episode,), server = play([first, calls(FINAL)])
    message = server.requests[1]["messages"][2]
    assert (message["content"], message["reasoning_content"]) == ("Let me see.", "I look.")
    assert episode.stop_reason == "submit"


def test_a_conversation_that_a_server_cut_is_said_and_shortened(play):
    long = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 60) SELECT n, "
    long += "printf('%.*c', 150, 'x') FROM r"

    def script(body):
        size = len(json.dumps(body))
        if len(body["messages"]) < 4:
            return calls(("run_sql", {"sql": long}), ("run_sql", {"sql": long}))
        if size > 12_000:
            return completion({"content": "?"}, prompt=1051)
        return calls(FINAL)

    (episode,), _ = play(script)
    assert episode.stop_reason == "submit"

    def never(body):
        if len(body["messages"]) < 4:
            return calls(("run_sql", {"sql": long}), ("run_sql", {"sql": long}))
        return completion({"content": "?"}, prompt=500)

    (episode,), _ = play(never)
    assert episode.stop_reason == "context_exceeded"
    assert "the server read 500 of about" in episode.error
    assert "raise its context length" in episode.error


def test_a_template_that_lost_the_question_means_the_conversation_is_too_long():
    async def run(url):
        policy = ServerPolicy(url, "m", retry=QUICK)
        try:
            await policy.complete([{"role": "user", "content": "q"}], [], Sampling())
        finally:
            await policy.close()

    with (
        ScriptedServer([fails(500, "no user query found in messages")]) as server,
        pytest.raises(ContextOverflow),
    ):
        asyncio.run(run(server.url))


@pytest.mark.parametrize(
    "marker",
    ["<start_of_turn>", "[INST]", "[/INST]", "<|im_start|>", "<|eot_id|>", "</s>", "<<SYS>>",
     "[TOOL_CALLS]", "<tool_call>", "</think>", "<\uff5cUser\uff5c>", "<end_of_turn>", "[gMASK]"],
)  # fmt: skip
def test_no_control_token_reaches_the_model(marker, sandbox, tmp_path):
    database = make_database(
        tmp_path / "t.db", f"CREATE TABLE t(a TEXT); INSERT INTO t VALUES ('a {marker} b')"
    )
    question = ask(database, f"What\nis {marker} worth?", evidence=f"{marker} is a name")

    async def run(url):
        policy = ServerPolicy(url, "m", retry=QUICK)
        try:
            return await run_episode(question, policy, sandbox, AgentSettings(), Sampling())
        finally:
            await policy.close()

    with ScriptedServer([calls(("sample_rows", {"table": "t"})), calls(FINAL)]) as server:
        asyncio.run(run(server.url))
    texts = [m["content"] for m in server.requests[1]["messages"] if m["role"] != "assistant"]
    assert not any(marker in text for text in texts)
    assert "What\nis " in texts[1] and texts[2].startswith("a\n")


def test_the_last_turn_is_announced(play):
    settings = AgentSettings(max_turns=3)
    (episode,), server = play(lambda body: calls(*LOOKS), settings=settings)
    assert episode.stop_reason == "turn_limit" and episode.turns == 3
    told = [
        [LAST_TURN in m["content"] for m in body["messages"] if m["role"] == "tool"]
        for body in server.requests
    ]
    assert told == [[], [False, False], [False, False, False, True]]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call><function=run_sql><parameter=sql>SELECT 1</param",
        "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</parameter>\n</functio",
        "<function=run_sql><parameter=sql>SELECT 1</parameter></function></tool_c",
        '<tool_call>{"name": "run_sql", "arguments": {"sql": "SELECT 1"}',
        '<tool_call>{"name": "run_sql", "arguments": {"sql": "SELECT 1"}</tool',
    ],
)
def test_a_call_that_lacks_its_tail_is_taken_unless_the_limit_cut_it(text, play):
    (episode,), _ = play([says(text), calls(FINAL)])
    assert [json.loads(one.arguments) for one in episode.tool_log[:1]] == [{"sql": "SELECT 1"}]
    assert episode.tool_log[0].status == "ok"
    (episode,), _ = play([completion({"content": text}, "length")])
    assert episode.stop_reason == "truncated"


@pytest.mark.parametrize("arguments", ['{"sql": NaN}', "SELECT 1", "{'sql': 'SELECT 1'}"])
def test_arguments_that_are_no_json_are_quoted_to_the_model(arguments, play):
    _, server = play([calls(("run_sql", arguments)), calls(FINAL)])
    called, answer = server.requests[1]["messages"][2:4]
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {}
    assert answer["content"].endswith(f"not a complete JSON object: {arguments}")


@pytest.mark.parametrize("asked", ["86400", "Wed, 01 Jan 2100 00:00:00 GMT", "100"])
def test_a_wait_beyond_reason_is_cut(asked, play, caplog):
    retry = Retry(attempts=3, first_wait=0.005, longest_wait=0.01, longest_asked=0.01)
    (episode,), _ = play([fails(429, retry_after=asked), calls(FINAL)], retry=retry)
    assert episode.stop_reason == "submit"
    assert "it gets 0.01 s" in caplog.text
    assert Retry().longest_asked == 60


def test_a_stream_that_never_says_it_is_done_is_a_reply():
    events = [
        {"choices": [{"index": 0, "delta": {"content": "fine"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}},
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"

    async def run(url):
        policy = ServerPolicy(url, "m", retry=Retry(attempts=1), request_seconds=30)
        try:
            return await policy.complete([{"role": "user", "content": "q"}], [], Sampling())
        finally:
            await policy.close()

    with ScriptedServer([Step(raw=head + body, hold=40)]) as server:
        reply = asyncio.run(asyncio.wait_for(run(server.url), 20))
    assert (reply.content, reply.prompt_tokens, reply.completion_tokens) == ("fine", 3, 5)


def test_an_unknown_certificate_is_named_with_the_setting(tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
         certificate, "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ScriptedServer(lambda body: says("fine"), tls=context) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(Text2SqlError, match=r"not trusted \(.*\).*set SSL_CERT_FILE"):
            fetch(f"{url}/models", "", 5)
        with pytest.raises(Text2SqlError, match=r"not trusted \(.*\).*set SSL_CERT_FILE"):
            asyncio.run(
                ServerPolicy(url, "m", retry=QUICK).complete(
                    [{"role": "user", "content": "q"}], [], Sampling()
                )
            )
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert find_api(url)[1] == {"scripted": "/m/scripted"}


def test_a_server_that_is_gone_is_infrastructure(play):
    (episode,), _ = play([fails(500, "dead")] * 3)
    assert episode.stop_reason == "infrastructure"
    with pytest.raises(InfrastructureError):
        open_policy("http://127.0.0.1:9")
