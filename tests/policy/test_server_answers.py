"""What servers answer, well and badly: every answer is a reply, a retry, or one clear sentence."""

import asyncio
import gzip
import json
import socket
import threading
from dataclasses import replace

import pytest

from tests.support.agent_databases import ask, make_database
from tests.support.scripted_server import (
    ScriptedServer,
    Step,
    calls,
    completion,
    fails,
    replay,
    says,
    submits,
)
from text2sql.agent.loop import run_episode
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tool_calls import TOOL_SCHEMAS, checked
from text2sql.common.http import proxy_for
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow, Sampling
from text2sql.policy.open import open_policy
from text2sql.policy.served.connections import fetch
from text2sql.policy.served.server import Retry, ServerPolicy

QUICK = Retry(attempts=2, first_wait=0.005, longest_wait=0.01, total_seconds=20)
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
WHOLE = says("fine").body
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SIZED = HEAD + b"Content-Length: %d\r\n\r\n" % len(WHOLE)


def complete(*script, messages=MESSAGES, seconds=600.0, **options):
    """Ask once; returns the reply and the server."""

    async def run(url):
        policy = ServerPolicy(url, "scripted", retry=QUICK, request_seconds=seconds, **options)
        try:
            return await policy.complete(messages, TOOL_SCHEMAS, Sampling(max_tokens=64))
        finally:
            await policy.close()

    with ScriptedServer(script) as server:
        return asyncio.run(run(server.url)), server


def chunked(data):
    return Step(raw=HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + data)


def encoded(kind, body):
    return Step(body, headers={"Content-Encoding": kind})


def stream(text):
    return Step(text.encode(), headers={"Content-Type": "text/event-stream"})


def choice(**fields):
    return replay({"choices": [fields]})


def streamed(*deltas, finish="stop", end="data: [DONE]\n\n", line="\n\n"):
    """A stream of these deltas, with a comment first and the usage last."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "error": None})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}})
    events = [f"data: {json.dumps(chunk, ensure_ascii=False)}{line}" for chunk in chunks]
    return stream(f": keep-alive{line}{''.join(events)}{end}")


def part(arguments, index=0, name=None, **fields):
    """A delta with a part of a call."""
    function = {"name": name, "arguments": arguments}
    entry = {"index": index, "function": function} | fields
    return {"tool_calls": [{key: value for key, value in entry.items() if value is not None}]}


GARBLED = {
    "mail server": Step(raw=b"220 mail ready\r\n"),
    "TLS": Step(raw=b"\x15\x03\x01\x00\x02\x02\x50"),
    "HTTP 2": Step(raw=b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"),
    "no header": Step(raw=WHOLE),
    "header cut": Step(raw=HEAD),
    "header endless": Step(raw=HEAD + b"X: " + b"a" * 100_000),
    "header broken": Step(raw=HEAD + b"no colon\r\n\r\n" + WHOLE),
    "body cut": Step(raw=SIZED + WHOLE[:-5]),
    "body cut at once": Step(raw=SIZED),
    "length broken": Step(raw=HEAD + b"Content-Length: -5\r\n\r\n" + WHOLE),
    "chunks cut": chunked(b'5\r\n{"cho'),
    "chunks broken": chunked(b"zz\r\nxx"),
    "no gzip": encoded("gzip", WHOLE),
    "gzip cut": encoded("gzip", gzip.compress(WHOLE)[:-12]),
    "no deflate": encoded("deflate", b"xx"),
    "unknown compression": encoded("br", b"xx"),
    "nothing": Step(b""),
    "no content": Step(b"", 204),
    "a part": Step(WHOLE[:20], 206),
    "a page": Step(b"<html><h1>Welcome</h1></html>", headers={"Content-Type": "text/html"}),
    "Latin-1": Step(WHOLE.replace(b"fine", b"\xe9")),
    "UTF-16": Step(WHOLE.decode().encode("utf-16")),
    "nested": Step(b"[" * 100_000),
    "nothing in JSON": replay(None),
    "a word": replay("ok"),
    "no choices": replay({"choices": None}),
    "no message": choice(text="hi"),
    "a message of text": choice(message="hi"),
    "content of another kind": choice(message={"content": {"text": "x"}}),
    "calls of another kind": choice(message={"tool_calls": {"id": "c"}}),
    "a call that is nothing": choice(message={"tool_calls": [None]}),
    "a call without function": choice(message={"tool_calls": [{"id": "c"}]}),
    "aborted": choice(message={"content": "half an ans"}, finish_reason="abort"),
    "given up": choice(message={"content": ""}, finish_reason="error"),
    "cancelled": choice(message={"content": "half"}, finish_reason="CANCELLED"),
    "aborted, as SGLang says it": choice(message={"content": "h"}, finish_reason={"type": "abort"}),
    "an error beside half a reply": choice(message={"content": "h"}, error={"code": 502}),
    "the model failed": fails(424, "Request failed during generation"),
    "no resources": choice(message={"content": "x"}, finish_reason="insufficient_system_resource"),
    "a detail": replay({"detail": "queue full"}),
    "error text": replay({"error": "queue full"}),
    "stream cut": streamed({"content": "half"}, finish=None, end=""),
    "stream cut within an event": streamed({"content": "half"}, end='data: {"choi'),
    "stream of nothing": stream("data: [DONE]\n\n"),
    "stream of comments": stream(": ping\n\n: ping\n\n"),
    "stream of something else": stream("data: [1]\n\ndata: [DONE]\n\n"),
    "stream in Latin-1": Step(streamed({"content": "\xe9"}).body.replace(b"\xc3\xa9", b"\xe9")),
    "error object": replay({"object": "error", "message": "queue full", "code": 503}),
    "not implemented": fails(501),
    "page of a proxy": Step(b"<html>Bad Gateway</html>", 502),
    "no such status": Step(raw=b"HTTP/1.1 abc\r\n\r\n"),
    "slow": Step(WHOLE, drip=0.5),
    "stalled": Step(WHOLE, wait=3),
}


@pytest.mark.parametrize("kind", GARBLED)
def test_garbled_late_and_lost_replies_are_retried(kind):
    seconds = 1.0 if kind in ("slow", "stalled") else 30.0  # what is not late may take its time
    reply, server = complete(GARBLED[kind], says("fine"), seconds=seconds)
    assert reply.content == "fine"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        'data: {"error": {"message": "queue full", "code": 503}}\n\ndata: [DONE]\n\n',
        'data: {"error": {"message": "queue full"}}\r\n\r\ndata: [DONE]\r\n\r\n',
        ': ping\n\nevent: error\ndata: {"error": {"message": "queue full"}}\n\n',
        'event: error\ndata: {"message": "queue full", "type": "overloaded"}\n\n',
        'data: {"choices": [{"delta": {"content": "h"}}]}\n\n'
        'data: {"error": {"message": "queue full"}}\n\n',
        '{"error": {"message": "queue full", "code": 503}}',
        '{"object": "error", "message": "queue full"}',
    ],
)
def test_an_error_within_a_success_is_reported(text):
    with pytest.raises(InfrastructureError, match="2 tries: queue full"):
        complete(*[stream(text)] * 2)


@pytest.mark.parametrize("line", ["\n\n", "\r\n\r\n", "\r\r", "\n"])
@pytest.mark.parametrize("end", ["data: [DONE]\n\n", "data:[DONE]", ""])
def test_an_unrequested_stream_is_a_reply(line, end):
    deltas = [
        {"role": "assistant", "content": "", "reasoning": "h"},
        {"reasoning": "m"},
        {"content": "Z\u00fcrich \u2028\U0001f600"},
        {"content": None},
        {"content": " 'data: {'"},
    ]
    reply, _ = complete(streamed(*deltas, end=end, line=line))
    assert reply.content == "Z\u00fcrich \u2028\U0001f600 'data: {'"
    assert reply.message["reasoning"] == "hm"
    assert (reply.prompt_tokens, reply.completion_tokens, reply.truncated) == (3, 5, False)
    assert complete(streamed({"content": "x"}, finish="length"))[0].truncated


ONE, TWO = '{"sql": "SELECT 1"}', '{"sql": "SELECT 2"}'


@pytest.mark.parametrize(
    "deltas",
    [
        [part("", 0, "run_sql", id="a"), part(ONE[:7]), part(ONE[7:]),
         part("", 1, "submit", id="b"), part(TWO, 1)],
        [part(ONE, 0, "run_sql", id="a"), part(TWO, 0, "submit", id="b")],
        [part(ONE, None, "run_sql"), part(TWO, None, "submit")],
        [part(ONE[:7], None, "run_sql", id="a"), part(ONE[7:], None), part(TWO, 1, "submit")],
        [part(ONE[:7], 2, "run_sql", id="a"), part(TWO, 5, "submit", id="b"), part(ONE[7:], 2)],
        [part(ONE[:7], 0, "run_sql", id="a"), part(ONE[7:], 0, id="b"), part("", 0, id="c"),
         part(TWO, 1, "submit", id="d")],
        [part(ONE[:7], 0, "run_sql", id="a"), part(ONE[7:], 0, "run_sql", id="a"),
         part(TWO, 1, "submit", id="b"), part("", 1, "submit", id="b")],
        [part("{}", 0, "run_sql", id="a"), part(ONE), part(json.loads(TWO), 1, "submit")],
        [{"tool_calls": [part(ONE, 0, "run_sql")["tool_calls"][0],
                         part(TWO, 1, "submit")["tool_calls"][0]]}],
    ],
)  # fmt: skip
def test_streamed_calls_however_they_are_numbered(deltas):
    reply, _ = complete(streamed(*deltas, finish="tool_calls"))
    found = [(call.name, json.loads(call.arguments)["sql"]) for call in reply.tool_calls]
    assert found == [("run_sql", "SELECT 1"), ("submit", "SELECT 2")]
    assert len({call.id for call in reply.tool_calls}) == 2


def test_other_fields_of_a_stream():
    other = {"index": 1, "delta": {"content": "another choice"}}
    whole = {"message": {"content": [{"type": "text", "text": "fi"}]}, "finish_reason": None}
    events = [
        {"choices": [other]},
        {"choices": [whole]},
        {"choices": [{"delta": {"content": "ne"}}]},
    ]
    text = "".join(f"id: 1\nevent: message\ndata: {json.dumps(event)}\n\n" for event in events)
    assert complete(stream(f"{text}data: [DONE]\n\n"))[0].content == "fine"
    lines = json.dumps({"choices": [{"message": {"content": "fine"}}]}, indent=1)
    event = "".join(f"data: {row}\n" for row in lines.splitlines())
    assert complete(stream(f"{event}\ndata: [DONE]\n\n"))[0].content == "fine"
    call = {"function_call": {"name": "run_sql", "arguments": ONE[:5]}}
    rest = {"function_call": {"arguments": ONE[5:]}}
    reply, _ = complete(streamed(call, rest, finish="function_call"))
    assert json.loads(reply.tool_calls[0].arguments) == json.loads(ONE)


def test_a_stream_that_stays_open_behind_its_end():
    body = streamed({"content": "fine"}).body
    head = HEAD.replace(b"json", b"event-stream") + b"Content-Length: %d\r\n\r\n"
    left_open = Step(raw=head % (len(body) + 1) + body, hold=3)
    assert complete(left_open, seconds=2)[0].content == "fine"


def test_a_streamed_call_that_was_cut_is_cut():
    deltas = [part(ONE[:12], 0, "run_sql", id="a")]
    reply, _ = complete(streamed(*deltas, finish="length"))
    assert reply.truncated


def test_an_endless_answer_is_left():
    bomb = encoded("gzip", gzip.compress(b" " * (80 << 20)))
    assert complete(bomb, says("fine"))[0].content == "fine"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 16384 tokens. However, you requested 17210 tokens",
        "You passed 4097 input tokens. However, the model's context length is only 4096 tokens",
        "'max_tokens' is too large: 2048. This model's maximum context length is 4096 tokens",
        "The decoder prompt (length 9) is longer than the maximum model length of 8.",
        "The prompt is too long: 9000, model maximum context length: 8192",
        "Please reduce max_model_len or the prompt",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        "Requested token count exceeds the model's maximum context length of 8192 tokens.",
        "Input length (9000) exceeds the maximum allowed length (8192 tokens)",
        "the request exceeds the available context size, try increasing it",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 1100",
        "Prompt length (2000) exceeds maximum input length (1000)",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576)",
        "Prompt contains 35000 tokens, too large for model with 32768 maximum context length",
        "litellm.ContextWindowExceededError: OpenAIException",
        "Please reduce the length of the messages or completion.",
        "max_tokens must be at least 1, got -186.",
        "default_max_tokens (-200) must be greater than 0",
        "Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)",
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        "input length and `max_tokens` exceed context limit: 170636 + 34048 > 200000, try again",
        "max_tokens (2048) exceeds the remaining context of 100 tokens",
        "The total length of all messages is too long.",
        "Input prompt (9000 tokens) is too long and exceeds limit of 8192",
        "tokens in request more than max tokens allowed",
        "Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)",
        "Your request exceeded model token limit: 262144 (requested: 300000)",
        "prompt token count of 129000 exceeds the limit of 128000",
        "Input tokens exceed the configured limit of 272000 tokens.",
        "Range of input length should be [1, 30720]",
        "The request exceeds the model's sequence length",
        "Prompt exceeds max length",
        "Total tokens of image and text exceed max message tokens",
        "Token limit exceeded",
    ],
)
@pytest.mark.parametrize("status", [400, 422, 500])
def test_however_too_long_is_said(message, status):
    with pytest.raises(ContextOverflow):
        complete(fails(status, message), says("never asked"))


@pytest.mark.parametrize(
    "step",
    [
        replay({"error": {"message": "no", "code": "context_length_exceeded"}}, 400),
        replay({"error": {"message": "no", "type": "exceed_context_size_error"}}, 400),
        replay({"object": "error", "message": "maximum context length is 5", "code": 400}, 400),
        replay({"detail": "maximum context length is 5"}, 400),
        Step(b"maximum context length is 5", 400),
        replay({"error": {"message": "maximum context length is 5", "code": 400}}),
        stream('data: {"error": {"message": "maximum context length is 5"}}\n\n'),
    ],
)
def test_wherever_too_long_is_said(step):
    with pytest.raises(ContextOverflow):
        complete(step, says("never asked"))


@pytest.mark.parametrize(
    "step",
    [
        fails(400, "tools[0].function is invalid"),
        fails(413, "Request Entity Too Large"),
        fails(400, "messages[2].tool_calls[0].id: expected a string with maximum length 40"),
        fails(400, "max_tokens must be at most 8192"),
        fails(400, "the conversation must have a user message"),
        fails(400, "Unsupported value: 'temperature' does not support 0 with this model"),
    ],
)
def test_other_refusals_are_not_about_length(step):
    with pytest.raises(InfrastructureError):
        complete(step)


def test_requests_adapt_to_what_a_server_refuses():
    """Many are refused at once; each is asked again, and later ones are written so at once."""
    newer = fails(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    extra = fails(422, "extra_forbidden: messages.2.reasoning: Extra inputs are not permitted")
    thought = {"role": "assistant", "content": "a", "reasoning": 'b "max_tokens": 1'}

    def answer(body):
        if "max_tokens" in body:
            return newer
        return extra if any("reasoning" in message for message in body["messages"]) else says("x")

    async def run(url):
        policy = ServerPolicy(url, "m", retry=replace(QUICK, attempts=3))
        ask = (policy.complete([*MESSAGES, thought], [], Sampling(max_tokens=9)) for _ in range(8))
        found = await asyncio.gather(*ask)
        await policy.complete([*MESSAGES, thought], [], Sampling(max_tokens=9))
        await policy.close()
        return [reply.content for reply in found]

    with ScriptedServer(answer) as server:
        assert asyncio.run(run(server.url)) == ["x"] * 8
        last = server.requests[-1]
        assert len(server.requests) <= 25
    assert last["max_completion_tokens"] == 9
    assert last["messages"][2] == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    "words",
    [
        "`temperature` and `top_p` cannot both be specified for this model",
        "Unsupported parameter: 'top_p' is not supported with this model.",
    ],
)
def test_a_top_p_of_one_is_left_out_if_refused(words):
    reply, server = complete(fails(400, words), says("fine"))
    assert reply.content == "fine"
    assert ["top_p" in body for body in server.requests] == [True, False]


@pytest.mark.parametrize(
    "words",
    [
        "System role not supported",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    ],
)
def test_without_a_system_role_the_user_message_has_the_instructions(words):
    reply, server = complete(fails(400, words), says("fine"))
    assert reply.content == "fine"
    assert server.requests[1]["messages"] == [{"role": "user", "content": "s\n\nq"}]


def test_a_limit_on_the_nucleus_is_never_left_out():
    async def run(url):
        policy = ServerPolicy(url, "m", retry=QUICK)
        try:
            await policy.complete(MESSAGES, [], Sampling(top_p=0.9))
        finally:
            await policy.close()

    with (
        ScriptedServer([fails(400, "'top_p' is not supported")]) as server,
        pytest.raises(InfrastructureError, match="top_p"),
    ):
        asyncio.run(run(server.url))


def test_a_key_that_a_server_repeats_is_masked():
    for status in (200, 400, 500):
        with pytest.raises(InfrastructureError, match=r"\[key\]") as caught:
            complete(*[fails(status, "no: Bearer sk-123456789")] * 2, api_key="sk-123456789")
        assert "sk-1" not in str(caught.value)
    assert complete(says("is EMPTY"), api_key="EMPTY")[0].content == "is EMPTY"


def test_a_limit_on_the_rate_is_waited_out():
    busy = fails(429, "too many tokens per minute: limit 6000", retry_after="0")
    assert complete(busy, says("fine"))[0].content == "fine"
    throttled = fails(400, "ThrottlingException: Too many tokens, please wait")
    assert complete(throttled, says("fine"))[0].content == "fine"


@pytest.mark.parametrize(
    "usage", [None, [], "none", {}, {"completion_tokens": None}, {"completion_tokens": "many"}]
)
def test_usage_that_says_nothing_counts_as_none(usage):
    body = json.loads(WHOLE) | {"usage": usage}
    reply, _ = complete(replay(body))
    assert (reply.content, reply.prompt_tokens, reply.completion_tokens) == ("fine", 0, 0)
    body.pop("usage")
    assert complete(replay(body))[0].content == "fine"


@pytest.mark.parametrize("number", [-5, float("nan"), float("inf"), True, 10**10, 1e300])
def test_numbers_of_tokens_that_are_none(number):
    body = json.loads(WHOLE) | {"usage": {"completion_tokens": number}}
    assert complete(replay(body))[0].completion_tokens in (0, 1)


@pytest.mark.parametrize(
    "content, text",
    [
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "fi"}, {"type": "text", "text": "ne"}], "fine"),
        (["fi", {"type": "image"}, "ne"], "fine"),
        ([{"type": "thinking", "thinking": [{"text": "hm"}]}, {"text": "fine"}], "fine"),
        ([{"type": "reasoning", "text": "hm"}, {"type": "output_text", "text": "fine"}], "fine"),
    ],
)
def test_the_forms_of_content(content, text):
    assert complete(says(content))[0].content == text


def call_with(arguments, **fields):
    function = {"name": "run_sql", "arguments": arguments} | fields
    return completion({"content": None, "tool_calls": [{"id": "c", "function": function}]})


@pytest.mark.parametrize(
    "arguments",
    [
        {"sql": "SELECT 1"},
        '{"sql": "SELECT 1"}',
        ' {"sql": "SELECT 1"}\n',
        json.dumps('{"sql": "SELECT 1"}'),
        json.dumps(json.dumps('{"sql": "SELECT 1"}')),
        '{}{"sql": "SELECT 1"}',
        '{"sql": "SELECT 1"}\n{"sql": "SELECT 1"}',
    ],
)
def test_arguments_as_an_object_as_text_and_quoted_twice(arguments):
    (call,) = complete(call_with(arguments))[0].tool_calls
    assert json.loads(call.arguments) == {"sql": "SELECT 1"}


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        5,
        [1],
        "",
        " ",
        "null",
        '{"sql": "a"}{"sql": "b"}',
        '"text"',
        '{"sql": "SEL',
        '{"sql": ' + "[" * 100_000,
        "9" * 5000,
    ],
)
def test_arguments_that_are_not_an_object_go_back_as_an_empty_one(arguments):
    reply, _ = complete(call_with(arguments))
    assert len(reply.tool_calls) == 1
    assert reply.message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_line_breaks_that_a_server_left_in_the_json_are_read_and_sent_back_escaped():
    reply, _ = complete(call_with('{"sql": "SELECT 1\n\tFROM t"}'))
    (call,) = reply.tool_calls
    assert checked("run_sql", call.arguments) == {"sql": "SELECT 1\n\tFROM t"}
    sent = reply.message["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"sql": "SELECT 1\n\tFROM t"}


@pytest.mark.parametrize("arguments", [None, "", " ", "null", "{}", '""', "{}{}"])
def test_no_arguments_however_they_are_said(arguments):
    reply, _ = complete(call_with(arguments, name="inspect_schema"))
    assert checked("inspect_schema", reply.tool_calls[0].arguments) == {}


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"name": " run_sql\n", "arguments": '{"sql": "SELECT 1"}'}]},
        {"tool_calls": [{"type": "tool_use", "name": "run_sql", "input": {"sql": "SELECT 1"}}]},
        {"tool_calls": [{"function": {"name": "run_sql", "parameters": {"sql": "SELECT 1"}}}]},
        {"function_call": {"name": "run_sql", "arguments": '{"sql": "SELECT 1"}'}},
        {"tool_calls": [], "function_call": {"name": "run_sql", "arguments": {"sql": "SELECT 1"}}},
    ],
)
def test_calls_in_older_forms(message):
    (call,) = complete(completion(message))[0].tool_calls
    assert (call.name, json.loads(call.arguments)) == ("run_sql", {"sql": "SELECT 1"})
    assert call.id


def test_a_call_that_was_parsed_and_left_in_the_content_is_one():
    text = "Let me.\n<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</parameter>\n"
    reply, _ = complete(calls(("run_sql", ONE), content=f"{text}</function>\n</tool_call>"))
    assert [call.id for call in reply.tool_calls] == ["c0"]
    assert reply.message["content"] == "Let me."
    assert complete(calls(("submit", ONE), content=text))[0].content == text


CUT = ["length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded"]


@pytest.mark.parametrize("finish", CUT)
def test_every_name_of_a_reply_that_was_cut(finish):
    assert complete(completion({"content": "x"}, finish, used=0))[0].truncated


def test_a_call_without_a_name_is_an_unknown_tool():
    assert complete(call_with("{}", name=None))[0].tool_calls[0].name == ""


def test_halves_of_surrogate_pairs_never_reach_a_server():
    half = "\ud83d"
    asked = [*MESSAGES, {"role": "user", "content": f"a {half} b"}]
    arguments = json.dumps({"sql": f"SELECT '{half}'"})
    step = calls(("run_sql", arguments), reasoning=f"hm {half}")
    first, server = complete(step, messages=asked)
    assert server.requests[0]["messages"][2]["content"] == "a ? b"
    assert json.loads(first.tool_calls[0].arguments)["sql"] == f"SELECT '{half}'"
    _, server = complete(says("x"), messages=[*asked, first.message])
    sent = server.requests[0]["messages"][3]
    assert sent["reasoning"] == "hm ?"
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"sql": "SELECT \'?\'"}'
    whole, _ = complete(calls(("run_sql", '{"sql": "SELECT \'\\ud83d\\ude00\'"}')))
    assert "\\ud83d\\ude00" in whole.tool_calls[0].arguments


def test_a_redirect_is_reported_and_not_followed():
    with ScriptedServer([says("stolen")]) as other:
        moved = Step(b"", 307, {"Location": f"{other.url}/chat/completions"})
        with pytest.raises(Text2SqlError, match="redirects"):
            complete(moved, api_key="secret")
        assert not other.requests


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405])
def test_refusals_by_a_server_that_has_answered_may_pass(status):
    """A proxy answers so while the server behind it starts again."""

    async def run(url):
        policy = ServerPolicy(url, "m", retry=QUICK)
        try:
            await policy.complete(MESSAGES, [], Sampling())
            return await policy.complete(MESSAGES, [], Sampling())
        finally:
            await policy.close()

    with ScriptedServer([says("a"), fails(status), says("b")]) as server:
        assert asyncio.run(run(server.url)).content == "b"


def test_a_connection_that_the_server_closed_in_between():
    closing = {"Connection": "close"}
    script = [Step(WHOLE, headers=closing), Step(WHOLE, headers=closing), says("fine")]

    async def run(url):
        policy = ServerPolicy(url, "m", retry=QUICK)
        found = [await policy.complete(MESSAGES, [], Sampling()) for _ in range(3)]
        await policy.close()
        return [reply.content for reply in found]

    with ScriptedServer(script) as server:
        assert asyncio.run(run(server.url)) == ["fine"] * 3
        assert len(server.requests) == 3


@pytest.mark.parametrize("key", ["two\nlines", "schl\u00fcssel", "a\tb"])
def test_an_invalid_key_is_refused_and_not_quoted(key, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_API_KEY", key)
    with pytest.raises(Text2SqlError, match="set it again") as caught:
        open_policy("http://127.0.0.1:9/v1")
    assert key not in str(caught.value)


def test_a_key_may_end_with_a_line_break():
    _, server = complete(says("x"), api_key=" secret\n")
    assert server.headers[0]["Authorization"] == "Bearer secret"


PROXY = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def environment(monkeypatch):
    """Set the proxies of the environment, and only those."""
    for name in PROXY:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch.setenv


def test_proxies_come_from_the_environment_and_never_for_this_machine(environment):
    assert proxy_for("http://far/v1") is None
    environment("http_proxy", "http://proxy:1")
    environment("https_proxy", "proxy:2")
    assert proxy_for("http://far/v1") == "http://proxy:1"
    assert proxy_for("https://far/v1") == "http://proxy:2"
    for near in ("127.0.0.1:8", "localhost", "[::1]:8", "0.0.0.0:8", "[::]:8"):
        assert proxy_for(f"http://{near}/v1") is None
    environment("no_proxy", "far")
    assert proxy_for("http://far/v1") is None
    environment("no_proxy", "")
    environment("http_proxy", "socks5://user:secret@proxy:1")
    with pytest.raises(Text2SqlError, match="must be an HTTP proxy") as caught:
        proxy_for("http://far/v1")
    assert "secret" not in str(caught.value)


def test_requests_go_through_the_proxy(environment):
    with ScriptedServer([says("via")], ["m"]) as proxy:
        environment("http_proxy", proxy.url.removesuffix("/v1"))
        url = "http://policy.example/v1"
        assert json.loads(fetch(f"{url}/models", "", 5).content)["data"][0]["id"] == "m"
        policy = open_policy(url)

        async def run():
            try:
                return await policy.complete(MESSAGES, [], Sampling())
            finally:
                await policy.close()

        assert asyncio.run(run()).content == "via"
        assert proxy.headers[0]["Host"] == "policy.example"


MODELS = json.dumps({"object": "list", "data": [{"id": "org/model"}]}).encode()
PACKED = gzip.compress(MODELS, mtime=0)  # the same bytes, so the same test names, every second


@pytest.mark.parametrize(
    "answer, words",
    [
        (b"200 OK\r\nContent-Encoding: gzip\r\n\r\n" + PACKED, ""),
        (b"200 OK\r\nContent-Encoding: gzip\r\n\r\n" + PACKED[:-9], "No policy server answers"),
        (b"200 OK\r\nContent-Encoding: gzip\r\n\r\nxx", "No policy server answers"),
        (
            b"308 Moved\r\nLocation: https://far/v1/models\r\n\r\n",
            "HTTP 308: https://far/v1/models",
        ),
        (b'200 OK\r\n\r\n{"models": [{"name": "m"}]}', "no list of models"),
    ],
)
def test_lists_of_models(answer, words):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=greet, args=(listening, b"HTTP/1.1 " + answer), daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/#org/model"
        if not words:
            assert open_policy(url).info.name == "org/model"
            return
        with pytest.raises((Text2SqlError, InfrastructureError), match=words):
            open_policy(url)


def greet(listening, answer):
    """Answer one connection."""
    connection, _ = listening.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(answer)


@pytest.mark.parametrize("answer", [b"220 mail ready\r\n", b"HTTP/1.1 200 OK\r\n\r\n<html>", b""])
def test_opening_something_else_than_a_policy_server(answer):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=greet, args=(listening, answer), daemon=True).start()
        with pytest.raises(Text2SqlError, match=r"No policy server answers|no list of models"):
            open_policy(f"http://127.0.0.1:{listening.getsockname()[1]}")


@pytest.fixture
def replayed(shared_data, tmp_path, sandbox):
    """Play recorded answers as an episode, then submit; returns the episode and the requests."""
    folder = shared_data.parent / "cases" / "repro"
    database = make_database(tmp_path / "t.db", "CREATE TABLE t(a); CREATE TABLE '03106'(a)")

    def step(name):
        data = (folder / name).read_bytes()
        return says(data.decode()) if name.endswith(".content.txt") else Step(data)

    def run(*names, status=200):
        async def episode(url):
            policy = ServerPolicy(url, "m", retry=QUICK)
            sampling = Sampling(max_tokens=64)
            try:
                return await run_episode(ask(database), policy, sandbox, AgentSettings(), sampling)
            finally:
                await policy.close()

        script = [Step(step(name).body, status) for name in names]
        with ScriptedServer([*script, submits("SELECT 9")]) as server:
            return asyncio.run(episode(server.url)), server.requests

    return run


def carried_out(episode):
    return [(record.name, json.loads(record.arguments)) for record in episode.tool_log[:-1]]


def last_text(episode):
    """What the call before the final submit was answered with."""
    return [m["content"] for m in episode.messages if m["role"] == "tool"][-2]


@pytest.mark.parametrize(
    "name, sql",
    [
        ("D01.response.json", "SELECT COUNT(*) FROM t"),
        ("D03.content.txt", "SELECT 1"),
        ("D07.content.txt", "SELECT '</parameter>' AS x, '<parameter=y>' AS z"),
        ("D27.response.json", "SELECT 1"),
    ],
)
def test_recorded_calls_left_in_the_content(replayed, name, sql):
    episode, requests = replayed(name)
    assert carried_out(episode) == [("run_sql", {"sql": sql})]
    assert "function=" not in requests[1]["messages"][2]["content"]


@pytest.mark.parametrize("name", ["D03.unknown.content.txt", "D23.content.txt"])
def test_recorded_text_without_a_call(replayed, name):
    episode, _ = replayed(name)
    assert carried_out(episode) == []
    assert episode.stop_reason == "submit"


@pytest.mark.parametrize("name", ["D05.response.json", "D15.response.json"])
def test_recorded_truncated_replies(replayed, name):
    episode, _ = replayed(name)
    assert (episode.stop_reason, episode.tool_log) == ("truncated", [])


@pytest.mark.parametrize(
    "kind, words",
    [
        ("int", "(0 rows)"),
        ("float", "(0 rows)"),
        ("null", "(0 rows)"),
        ("None", "(0 rows)"),
        ("exp", "(0 rows)"),
        ("word", "limit must be an integer"),
        ("neg", "at least 1"),
    ],
)
def test_recorded_limits(replayed, kind, words):
    episode, _ = replayed(f"D09.limit_{kind}.content.txt")
    assert carried_out(episode)[0][1]["table"] == "03106"
    assert words in last_text(episode)


def test_recorded_turns(replayed):
    episode, _ = replayed("D11.response.json")
    assert episode.sql == "SELECT 2"
    assert [record.status for record in episode.tool_log] == ["ok", "ok", "ignored"]
    for name in ("D15.stop.response.json", "D27.empty.response.json"):
        episode, _ = replayed(name, name)
        assert (episode.stop_reason, episode.sql) == ("no_action", None)
    episode, _ = replayed("D25.a.response.json")
    assert "unknown tool execute_sql; available: inspect_schema" in last_text(episode)
    episode, _ = replayed("D25.b.response.json")
    assert "missing argument sql" in last_text(episode)


def test_recorded_failures(replayed):
    episode, requests = replayed("D17.response.json", status=400)
    assert (episode.stop_reason, len(requests)) == ("context_exceeded", 1)
    episode, _ = replayed("D21.sse", "D21.sse")
    assert episode.stop_reason == "infrastructure"
    assert "queue full" in episode.error
