"""Read a server's chat completion: its text, its calls, and whether it was cut off."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from text2sql.policy.base import ContextOverflow, Message, Reply, ToolCall
from text2sql.policy.calls import loaded, new_call_id, parse_calls, split_thinking
from text2sql.policy.served.streams import own_fields

_log = logging.getLogger(__name__)
_warned: set[str] = set()
# The words of several servers for a reply that they gave up, and for one at the token limit.
_GIVEN_UP = re.compile(
    r"abort(?:ed)?|cancelled|error|timeout|network_error|insufficient_system_resource", re.I
)
_CUT = re.compile(r"length|max_(?:output_)?tokens|model_(?:length|context_window_exceeded)", re.I)
_THOUGHT_TAG = re.compile(r"</?think(?:ing)?>")
_DECODER = json.JSONDecoder(strict=False)
_MOST_TOKENS = 10_000_000  # no model reads or writes more at once; sums fit into 32 bits
_LONG_CHARS = 8_000
_LEAST_CONTEXT = 256
NO_TEXT = "(no text)"
"""Stands for a reply without text and calls: several servers refuse a history with an empty one."""
_KNOWN_FIELDS = ("role", "content", "tool_calls", "function_call", "index")
_KNOWN_CALL_FIELDS = ("id", "type", "function", "index", "name", "arguments", "parameters", "input")


class Unusable(Exception):
    """The answer is not a valid chat completion; another try may get one."""


def read_reply(answer: Any, tools: Sequence[Mapping[str, Any]], max_tokens: int) -> Reply:
    """Read one chat completion.

    Calls that the server left in the content are parsed, with one warning. A reply counts as
    truncated when the server says so, or when it used every token and has no call or a broken
    one (a parser may report a call that was cut off as finished). Raises Unusable, also if the
    server reports that it gave up on the reply.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        content = content_text(message.get("content"))
        calls = calls_in(message)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Unusable(f"the answer is not a chat completion ({error!r})") from error
    functions = [tool["function"] for tool in tools]
    required = {one["name"]: one.get("parameters", {}).get("required", ()) for one in functions}
    calls, content = _with_content(calls, content, required)
    finish = _finish(choice)
    used = _count(answer, "completion_tokens")
    # A complete call has an object of arguments with everything that its tool must have.
    complete = calls and all(
        isinstance(values := loaded(call.arguments), dict)
        and all(key in values for key in required.get(call.name, ()))
        for call in calls
    )
    return Reply(
        message=history_message(content, calls, own_fields(message, _KNOWN_FIELDS)),
        content=content,
        tool_calls=tuple(calls),
        finish_reason=finish,
        truncated=bool(_CUT.fullmatch(finish)) or (used >= max_tokens and not complete),
        prompt_tokens=_count(answer, "prompt_tokens"),
        completion_tokens=used,
    )


def _finish(choice: Mapping[str, Any]) -> str:
    """Return why a reply ended, ``stop`` by default; raise Unusable if the server failed.

    SGLang's own form is an object with a ``type``; a router may put an error beside half a reply.
    """
    finish = choice.get("finish_reason") or "stop"
    finish = str(finish.get("type") if isinstance(finish, dict) else finish)
    if _GIVEN_UP.fullmatch(finish):
        raise Unusable(f"the server gave up on the reply (finish_reason {finish!r})")
    if choice.get("error"):
        raise Unusable(f"the server gave up on the reply ({str(choice['error'])[:300]})")
    return finish


def require_whole_prompt(
    reply: Reply, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> None:
    """Raise ContextOverflow if the server read only a part of the prompt, as Ollama does silently.

    That shows in its own count of tokens: no tokenizer has 8 characters of English, SQL or tables
    in a token. A count below any context's size is not one.
    """
    chars = len(json.dumps([messages, tools], ensure_ascii=False))
    if chars >= _LONG_CHARS and _LEAST_CONTEXT <= reply.prompt_tokens < chars / 8:
        raise ContextOverflow(
            f"the server read {reply.prompt_tokens:,} of about {chars // 4:,} "
            "tokens: raise its context length"
        )


def history_message(
    content: str, calls: Sequence[ToolCall], extra: Mapping[str, Any] | None = None
) -> Message:
    """Return the message for the history: arguments are JSON objects, ``extra`` goes back as is.

    A thought in the text moves to ``reasoning_content``: chat templates that find one in the text
    write it beside an empty thought.
    """
    thought, text = split_thinking(content)
    message: Message = {"role": "assistant", "content": text.strip() if thought else content}
    if thought := _THOUGHT_TAG.sub("", thought).strip():
        message["reasoning_content"] = thought
    message |= extra or {}
    if calls:
        message["content"] = message["content"] if message["content"].strip() else ""
        message["tool_calls"] = [
            {**call.extra, "id": call.id, "type": "function",
             "function": {"name": call.name, "arguments": _object_text(call.arguments)}}
            for call in calls
        ]  # fmt: skip
    elif not message["content"].strip():
        message["content"] = NO_TEXT
    return message


def content_text(content: Any) -> str:
    """Return content (None, a string or a list of parts) as text, without thoughts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(f"content is a {type(content).__name__}")
    parts = ({"text": part} if isinstance(part, str) else part for part in content)
    kinds = (None, "text", "output_text")
    return "".join(str(part.get("text") or "") for part in parts if part.get("type") in kinds)


def _count(answer: Mapping[str, Any], name: str) -> int:
    """Return a number of tokens from the usage; 0 if it is missing or implausible."""
    usage = answer.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return int(value) if isinstance(value, int | float) and 0 < value <= _MOST_TOKENS else 0


def calls_in(message: Mapping[str, Any]) -> list[ToolCall]:
    """Return the calls of a message, including the older ``function_call``.

    Raises KeyError, TypeError or AttributeError if its calls have another form.
    """
    older = message.get("function_call")
    entries = message.get("tool_calls") or ([{"function": older}] if older else ())
    calls: dict[str, ToolCall] = {}
    for call in map(_call, entries):
        # Each call needs its own answer, so a second one with the same identifier gets a new one.
        unique = replace(call, id=new_call_id()) if call.id in calls else call
        calls[unique.id] = unique
    return list(calls.values())


def _call(entry: Mapping[str, Any]) -> ToolCall:
    function = entry if "name" in entry and not entry.get("function") else entry["function"]
    identifier, name = entry.get("id") or new_call_id(), str(function.get("name") or "").strip()
    given = (function.get(key) for key in ("arguments", "parameters", "input"))
    found = next((value for value in given if value is not None), None)
    return ToolCall(str(identifier), name, _arguments(found), own_fields(entry, _KNOWN_CALL_FIELDS))


def _arguments(value: Any) -> str:
    """Return arguments as JSON text, whether they came as such, as an object, or quoted twice."""
    if not isinstance(value, str):
        return json.dumps({} if value is None else value)
    text, inner = value, loaded(value)
    while isinstance(inner, str):
        text, inner = inner, loaded(inner)
    if inner is None:
        return "{}" if text.strip() in ("", "null") else _repeated(text) or value
    return text if isinstance(inner, dict) else value


def _repeated(text: str) -> str | None:
    """Return the one object in a text that a server wrote twice, or after an empty one."""
    values: list[Any] = []
    rest = text.strip()
    try:
        while rest:
            value, end = _DECODER.raw_decode(rest)
            values.append(value)
            rest = rest[end:].lstrip()
    except (ValueError, RecursionError):
        return None
    kept = [value for value in values if value] or values[:1]
    alike = isinstance(kept[0], dict) and all(value == kept[0] for value in kept)
    return json.dumps(kept[0], ensure_ascii=False) if alike else None


def _with_content(
    calls: list[ToolCall], content: str, required: Mapping[str, Sequence[str]]
) -> tuple[list[ToolCall], str]:
    """Return the calls, from the content if the server parsed none, and the remaining text.

    A call that the server parsed and also left in the content counts once.
    """
    written, rest = parse_calls(content, list(required))
    if calls:
        repeated = {call.name for call in written} <= {call.name for call in calls}
        return calls, rest if repeated else content
    if written and required and "parser" not in _warned:
        _warned.add("parser")
        _log.warning(
            "The server did not parse tool calls; they are read from the text. "
            "Check --enable-auto-tool-choice and --tool-call-parser (qwen3_xml for Qwen3.5)."
        )
    return written, rest


def _object_text(arguments: str) -> str:
    """Return arguments as the JSON text of an object, without surrogates, which UTF-8 lacks."""
    values = loaded(arguments)
    if not isinstance(values, dict):
        return "{}"
    if "\\ud" not in arguments.lower() and loaded(arguments, strict=True) is not None:
        return arguments
    text = json.dumps(values, ensure_ascii=False)
    return text.encode("utf-8", errors="replace").decode()
