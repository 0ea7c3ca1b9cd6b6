"""Tool calls written as text: Qwen's XML form, read leniently but never guessed at.

Servers with the wrong parser leave calls in the content, and models drop tags. The rules:
a call needs a ``function`` tag whose name is a known tool, or any name inside a ``tool_call``
tag; a parameter ends at the closing tag that is followed by structure, so SQL may contain the
markers; a call that is cut off keeps its raw text as arguments, which no tool accepts.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from text2sql.policy.base import ToolCall

_NAME = r"""=["']?([^>\s<"']+)["']?\s*>"""
_OPEN = re.compile(rf"(?P<tag><tool_call>\s*)?<function{_NAME}|<tool_call>\s*(?=\{{)")
_CLOSE_TAG = re.compile(r"\s*</tool_call>")
_END = re.compile(r"</function>(?=\s*(?:</tool_call>|<tool_call>|<function=|\Z))")
_LINE_END = re.compile(r"^[ \t]*</function>", re.MULTILINE)
_CUT = re.compile(r"</tool_call>|<tool_call>")
_FIRST = re.compile(rf"\s*<parameter{_NAME}")
_NEXT = re.compile(rf"(?:</parameter>\s*|\n)<parameter{_NAME}")
_LAST = re.compile(r"</parameter>\s*\Z")
# The end of thinking that a server without a reasoning parser left in: never inside a string.
_THOUGHT = re.compile(r"</think>(?!['\"%])")


@dataclass(frozen=True)
class _Found:
    name: str
    arguments: str
    end: int


def parse_calls(text: str, tool_names: Collection[str]) -> tuple[list[ToolCall], str]:
    """Return the calls in ``text``, in order, and the text around them.

    Values are strings, as written; a tool converts what it needs. Without a call the text
    comes back unchanged. Nothing inside thinking is a call.
    """
    thought, rest = _split_thinking(text)
    calls: list[ToolCall] = []
    kept: list[str] = []
    position = 0
    while start := _OPEN.search(rest, position):
        found = _read(rest, start, tool_names)
        if found is None:
            kept.append(rest[position : start.end()])
            position = start.end()
            continue
        kept.append(rest[position : start.start()])
        calls.append(ToolCall(new_call_id(), found.name, found.arguments))
        position = found.end
    if not calls:
        return [], text
    kept.append(rest[position:])
    return calls, (thought + "".join(kept)).strip()


def new_call_id() -> str:
    """Return an identifier that is unique in its conversation."""
    return f"call_{uuid.uuid4().hex[:12]}"


def _split_thinking(text: str) -> tuple[str, str]:
    end = _THOUGHT.search(text)
    if end:
        return text[: end.end()], text[end.end() :]
    return (text, "") if text.lstrip().startswith("<think>") else ("", text)


def _read(text: str, start: re.Match[str], tool_names: Collection[str]) -> _Found | None:
    name = start[2]
    if name is None:
        return _read_json(text, start.end())
    if name not in tool_names and not start["tag"]:
        return None
    ends = [pattern.search(text, start.end()) for pattern in (_END, _LINE_END)]
    end = min((match for match in ends if match), key=re.Match.end, default=None)
    following = _CUT.search(text, start.end())
    if end is not None and not _opens_before(text, start.end(), end.start()):
        body, stop, closed = text[start.end() : end.start()], end.end(), True
    else:
        stop = following.start() if following else len(text)
        body, closed = text[start.end() : stop], following is not None
    closing = _CLOSE_TAG.match(text, stop)
    return _Found(name, _arguments(body, closed), closing.end() if closing else stop)


def _opens_before(text: str, start: int, end: int) -> bool:
    """Say whether another call opens on a line of its own before ``end``."""
    return re.search(r"^<tool_call>\s*$", text[start:end], re.MULTILINE) is not None


def _arguments(body: str, closed: bool) -> str:
    """Return the parameters as a JSON object, or the raw body where the call was cut off.

    A body that is itself a JSON object is taken as it is.
    """
    if _is_object(body):
        return body.strip()
    if not closed and not _LAST.search(body):
        return body.strip()
    values: dict[str, str] = {}
    opening = _FIRST.match(body)
    while opening:
        following = _NEXT.search(body, opening.end())
        value = body[opening.end() : following.start() if following else len(body)]
        values[opening[1]] = _value(value)
        opening = following
    return json.dumps(values, ensure_ascii=False)


def _is_object(body: str) -> bool:
    """Say whether a body is a JSON object, as Llama's ``<function=NAME>{...}</function>`` is."""
    try:
        return isinstance(json.loads(body, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _value(text: str) -> str:
    text = _LAST.sub("", text)
    text = text.removeprefix("\r").removeprefix("\n")
    return text.removesuffix("\n").removesuffix("\r")


def _read_json(text: str, start: int) -> _Found | None:
    """Read ``{"name": ..., "arguments": {...}}``, the other dialect of the same tag.

    Llama's templates call the arguments ``parameters``.
    """
    try:
        call, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except json.JSONDecodeError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", call.get("parameters", {}))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    closing = _CLOSE_TAG.match(text, end)
    return _Found(call["name"], arguments, closing.end() if closing else end)
