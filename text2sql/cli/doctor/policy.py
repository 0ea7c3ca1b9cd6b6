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
from text2sql.policy.base import ContextOverflow, Sampling
from text2sql.policy.calls import parse_calls, split_thinking
from text2sql.policy.open import API_KEY_VARIABLE, policy_directory, served_models, server_parts
from text2sql.policy.served.connections import Connections, NoAnswer
from text2sql.policy.served.dialect import Dialect
from text2sql.policy.served.failures import Retryable, completion_in, refusal
from text2sql.policy.served.replies import calls_in, content_text
from text2sql.policy.served.server import api_root
from text2sql.policy.weights import directory_revision, require_whole

FLAGS = (
    "start vLLM with --enable-auto-tool-choice --tool-call-parser qwen3_xml "
    "--reasoning-parser qwen3 (for Qwen3.5; another model has another parser)"
)
_PROBE = "Which tables does the database have? Look at them with inspect_schema."
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
    """Ask a server for its models, and one of them for a tool call."""
    try:
        models = list(served_models(url, os.environ.get(API_KEY_VARIABLE, "")))
    except Text2SqlError as error:
        fix = "start it (text2sql serve), or give the URL of a policy server"
        yield Finding("policy server", State.FAIL, str(error), fix)
        return
    if model and model not in models:
        found = f"{url} has no model {model!r}; it has: {', '.join(models)}"
        yield Finding("policy server", State.FAIL, found, "name one of them with --model")
        return
    yield Finding("policy server", State.OK, f"{url} has: {', '.join(models)}")
    yield _probe(url, model or models[0])


def _probe(url: str, model: str) -> Finding:
    try:
        choice = asyncio.run(_reply(api_root(url), model))["choices"][0]
        return _judged(choice["message"], str(choice.get("finish_reason")), model)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        found = f"the answer of {model} is not a chat completion ({error!r})"
        return Finding("tool calls", State.FAIL, found, "give an OpenAI-compatible server")
    except (NoAnswer, Retryable, ContextOverflow, Text2SqlError) as error:
        fix = FLAGS if "enable-auto-tool-choice" in str(error) else "check the server's log"
        return Finding("tool calls", State.FAIL, f"{model} cannot be asked: {error}", fix)


async def _reply(root: str, model: str) -> Any:
    """Send the request of the probe; return the chat completion."""
    connections = Connections(os.environ.get(API_KEY_VARIABLE, ""))
    messages = [
        {"role": "system", "content": AGENT_INSTRUCTIONS},
        {"role": "user", "content": _PROBE},
    ]
    dialect, url = Dialect(model), f"{root}/chat/completions"
    try:
        for _ in range(2):  # again if the answer shows which names the server wants
            body = dialect.body(messages, TOOL_SCHEMAS, Sampling(max_tokens=_TOKENS))
            answer = await connections.post(url, body, _SECONDS)
            if not dialect.learns(answer, body):
                break
    finally:
        await connections.close()
    if not 200 <= answer.status < 300:
        raise refusal(answer, root, model, proven=False)
    return completion_in(answer)


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
