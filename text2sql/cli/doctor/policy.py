"""The policy: a directory that can be loaded, or a server whose tool calls arrive."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from text2sql.agent.prompts import AGENT_INSTRUCTIONS
from text2sql.agent.tool_calls import TOOL_NAMES, TOOL_SCHEMAS
from text2sql.cli.doctor.finding import Finding, State
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import Choice, choose
from text2sql.policy.base import ContextOverflow, Message, Sampling
from text2sql.policy.calls import parse_calls, split_thinking
from text2sql.policy.open import API_KEY_VARIABLE, find_api, policy_directory, server_parts
from text2sql.policy.served.connections import NoAnswer
from text2sql.policy.served.failures import Retryable
from text2sql.policy.served.replies import Unusable, calls_in, content_text, read_reply
from text2sql.policy.served.server import ServerPolicy
from text2sql.policy.weights import directory_revision, require_whole

FLAGS = (
    "start vLLM with --enable-auto-tool-choice --tool-call-parser qwen3_xml "
    "--reasoning-parser qwen3 (for Qwen3.5; another model has another parser)"
)
_PROBE = "Which tables does the database have? Look at them with inspect_schema."
_RESULT = "tables: city (id INTEGER, name TEXT)"
_SECONDS = 120.0
_TOKENS = 1024


def check_policy(spec: str | None, model: str | None) -> Iterable[Finding]:
    """Check the policy that would answer; a server is asked to call a tool."""
    choice = choose(spec)
    if (directory := policy_directory(choice.spec)) is not None:
        yield _directory(choice, directory)
        return
    urls, model = server_parts(choice.spec, model)
    for url in urls:
        yield from _server(url, model)


def _directory(choice: Choice, directory: Path) -> Finding:
    require_whole(directory)
    title = choice.title or str(directory)
    use = f": {choice.use}" if choice.use else ""
    found = f"{title} ({directory_revision(directory)}){use}"
    if all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        return Finding("policy", State.OK, found)
    fix = "pip install 'text2sql-lifecycle[local]', or give a server's URL with --policy"
    return Finding("policy", State.WARN, f"{found}; the extra 'local' is missing", fix)


def _server(url: str, model: str | None) -> Iterable[Finding]:
    """Ask a server for its models, and play two turns with one of them."""
    key = os.environ.get(API_KEY_VARIABLE, "")
    try:
        root, models = find_api(url, key, named=model is not None)
    except Text2SqlError as error:
        fix = "start it (text2sql serve), or give the URL of a policy server"
        yield Finding("policy server", State.FAIL, str(error), fix)
        return
    if model and models and model not in models:
        found = f"{url} has no model {model!r}; it has: {', '.join(models)}"
        yield Finding("policy server", State.FAIL, found, "name one of them with --model")
        return
    model = model or next(iter(models))
    has = f"has: {', '.join(models)}" if models else f"lists no models; {model} is asked"
    yield Finding("policy server", State.OK, f"{url} {has}")
    yield from asyncio.run(_conversation(ServerPolicy(root, model, key, request_seconds=_SECONDS)))


async def _conversation(policy: ServerPolicy) -> list[Finding]:
    """Play two turns, as some servers refuse only a history, and name the adaptations."""
    messages: list[Message] = [
        {"role": "system", "content": AGENT_INSTRUCTIONS},
        {"role": "user", "content": _PROBE},
    ]
    sampling, model, found = Sampling(max_tokens=_TOKENS), policy.model, []
    name = "tool calls"
    try:
        answer = await policy.answer(messages, TOOL_SCHEMAS, sampling)
        choice = answer["choices"][0]
        found.append(_judged(choice["message"], str(choice.get("finish_reason")), model))
        name = "second turn"
        if calls_in(choice["message"]):
            reply = read_reply(answer, TOOL_SCHEMAS, _TOKENS)
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": _RESULT}
                for call in reply.tool_calls
            ]
            history = [*messages, reply.message, *results]
            read_reply(await policy.answer(history, TOOL_SCHEMAS, sampling), [], _TOKENS)
            found.append(Finding(name, State.OK, f"{model} takes a tool's result"))
    except (KeyError, IndexError, TypeError, AttributeError, Unusable) as error:
        problem = f"the answer of {model} is not a chat completion ({error!r})"
        found.append(Finding(name, State.FAIL, problem, "give an OpenAI-compatible server"))
    except (NoAnswer, Retryable, ContextOverflow, Text2SqlError) as error:
        fix = FLAGS if "enable-auto-tool-choice" in str(error) else "check the server's log"
        found.append(Finding(name, State.FAIL, f"{model} cannot be asked: {error}", fix))
    finally:
        await policy.close()
    if policy.adaptations:
        found.append(Finding("adaptations", State.OK, "; ".join(policy.adaptations)))
    return found


def _judged(message: dict[str, Any], finish: str, model: str) -> Finding:
    """Judge the server's tool-call parser by one answer."""
    content = content_text(message.get("content"))
    thought = str(message.get("reasoning") or message.get("reasoning_content") or "")
    state, fix = State.FAIL, FLAGS
    if calls := calls_in(message):
        found = f"{model} called {', '.join(call.name for call in calls)}, and the server parsed it"
        if "</think>" in content:
            state, found = State.WARN, f"{found}; its thinking comes back in the content"
        else:
            state, fix = State.OK, ""
    elif parse_calls(content, TOOL_NAMES)[0]:
        found = f"the calls of {model} come back in the content: the server does not parse them"
    elif "<tool_call>" in thought + split_thinking(content)[0]:
        found = f"the calls of {model} come back in its reasoning"
    elif finish == "length":
        found = f"{model} wrote {_TOKENS} tokens without a call"
        state, fix = State.WARN, "ask it a question and see: text2sql ask"
    elif finish == "tool_calls" or not content.strip():
        found = f"{model} returned an empty answer: a wrong parser may have swallowed its call"
    else:
        found = f"{model} called no tool; it said {' '.join(content.split())[:80]!r}"
        state, fix = State.WARN, f"choose a model that calls tools, or {FLAGS}"
    return Finding("tool calls", state, found, fix)
