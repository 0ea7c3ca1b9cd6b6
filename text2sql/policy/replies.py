"""From a server's chat completion to a reply: what it says, what it calls, whether it was cut."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from text2sql.policy.base import Message, Reply, ToolCall
from text2sql.policy.calls import new_call_id, parse_calls

_log = logging.getLogger(__name__)
_warned: set[str] = set()
_KEPT = ("reasoning", "reasoning_content", "reasoning_details")


class Unusable(Exception):
    """The answer has not the form of a chat completion; another try may have it."""


def read_reply(answer: Any, tools: Sequence[Mapping[str, Any]], max_tokens: int) -> Reply:
    """Read one chat completion.

    Calls that the server left in the content are parsed, with one warning. A reply counts as
    truncated when the server says so, or when it used every token and a call in it is broken
    or none came (a parser may report a call that was cut as finished). Raises Unusable.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        content = _text(message.get("content"))
        calls = _distinct([_call(entry) for entry in message.get("tool_calls") or ()])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Unusable(f"the answer is no chat completion ({error!r})") from error
    required = {tool["function"]["name"]: _required(tool) for tool in tools}
    if not calls and required:
        calls, content = _left_in_content(content, required)
    usage = answer.get("usage") or {}
    used = int(usage.get("completion_tokens") or 0)
    finish = str(choice.get("finish_reason") or "stop")
    broken = not calls or any(not _complete(call, required) for call in calls)
    return Reply(
        message=history_message(content, calls, {key: message.get(key) for key in _KEPT}),
        content=content,
        tool_calls=tuple(calls),
        finish_reason=finish,
        truncated=finish == "length" or (used >= max_tokens and broken),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        completion_tokens=used,
    )


def history_message(
    content: str, calls: Sequence[ToolCall], extra: Mapping[str, Any] | None = None
) -> Message:
    """Return the assistant message that goes back into the history.

    Arguments are always the JSON text of an object; ``extra`` (reasoning) is kept as it is.
    """
    message: Message = {"role": "assistant", "content": content}
    message |= {key: value for key, value in (extra or {}).items() if value is not None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _object_text(call.arguments)},
            }
            for call in calls
        ]
    return message


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return "" if content is None else str(content)


def _call(entry: Mapping[str, Any]) -> ToolCall:
    function = entry["function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments)
    return ToolCall(str(entry.get("id") or new_call_id()), str(function.get("name")), arguments)


def _distinct(calls: list[ToolCall]) -> list[ToolCall]:
    """Give a call whose identifier was used before a new one: each needs its own answer."""
    seen: set[str] = set()
    for index, call in enumerate(calls):
        if call.id in seen:
            calls[index] = replace(call, id=new_call_id())
        seen.add(call.id)
    return calls


def _left_in_content(
    content: str, required: Mapping[str, Sequence[str]]
) -> tuple[list[ToolCall], str]:
    calls, rest = parse_calls(content, list(required))
    if calls and "parser" not in _warned:
        _warned.add("parser")
        _log.warning(
            "The server did not parse tool calls; they are read from the text. "
            "Check --enable-auto-tool-choice and --tool-call-parser (qwen3_xml for Qwen3.5)."
        )
    return calls, rest


def _required(tool: Mapping[str, Any]) -> list[str]:
    return list(tool["function"].get("parameters", {}).get("required", ()))


def _complete(call: ToolCall, required: Mapping[str, Sequence[str]]) -> bool:
    """Say whether the arguments are an object with everything the tool must have."""
    try:
        values = json.loads(call.arguments)
    except ValueError:
        return False
    return isinstance(values, dict) and all(key in values for key in required.get(call.name, ()))


def _object_text(arguments: str) -> str:
    try:
        whole = isinstance(json.loads(arguments), dict)
    except ValueError:
        whole = False
    return arguments if whole else "{}"
