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
from text2sql.policy.calls.hermes import Named, only_calls, read_json_calls
from text2sql.policy.calls.thinking import split_thinking, thinking_until

# A name may be quoted, stand in an attribute, or lack the ">" behind it.
_NAME = r"""(?:\s*=|\s+name\s*=)\s*["']?([^>\s<"'=]+)["']?(?:\s*>|(?=\s*<|[ \t]*\r?\n))"""
_OPEN = re.compile(
    rf"(?P<tag><tool_call>\s*)?<function{_NAME}|<tool_call>\s*(?:```\w*\s*)?(?=[\[{{])"
)
# Closing tags also as models drift to: with a name, a slash or another word in them, or twice.
_END_TAG = r"</function[\w/=. -]{,40}>"
_VALUE_END = r"</parameter(?:[\w/=. -]{,40}>|[ \t]*(?=[\r\n]|\Z))\s*"
_END = re.compile(
    rf"{_END_TAG}(?=\s*(?:{_END_TAG}\s*)*(?:</?tool_call>|<function[ =]|<\|im_end\|>|\Z))"
)
_LINE_END = re.compile(r"^[ \t]*</function>", re.MULTILINE)
_CLOSING = re.compile(rf"(?:\s*(?:{_END_TAG}|```|</tool_call>|<\|im_end\|>))+")
_CUT = re.compile(r"</tool_call>|<tool_call>|<\|im_end\|>")
_FIRST = re.compile(rf"\s*<parameter{_NAME}")
_NEXT = re.compile(rf"(?:{_VALUE_END}|\n)<parameter{_NAME}")
_LAST = re.compile(rf"(?:^[ \t]*{_VALUE_END})*{_VALUE_END}\Z", re.MULTILINE)
_OPENS = re.compile(r"<tool_call>|<function[ =]|<parameter[ =]")


@dataclass(frozen=True)
class _Found:
    calls: list[Named]
    end: int


def parse_calls(text: str, tool_names: Collection[str]) -> tuple[list[ToolCall], str]:
    """Return the calls in ``text``, in order, and the text around them.

    Values are strings, as written; a tool converts what it needs. Without a call the text
    comes back unchanged. Nothing inside thinking is a call.
    """
    thought, rest = split_thinking(text)
    calls: list[Named] = []
    kept: list[str] = []
    position = 0
    while start := _OPEN.search(rest, position):
        passed = thinking_until(rest, position, start.start())
        found = None if passed else _read(rest, start, tool_names)
        end = found.end if found else passed or start.end()
        kept.append(rest[position : start.start() if found else end])
        calls += found.calls if found else []
        position = end
    if not calls and (calls := only_calls(rest, tool_names)):
        position = len(rest)
    if not calls:
        return [], text
    kept.append(rest[position:])
    return [ToolCall(new_call_id(), *call) for call in calls], (thought + "".join(kept)).strip()


def new_call_id() -> str:
    """Return an identifier that is unique in its conversation."""
    return f"call_{uuid.uuid4().hex[:12]}"


def _read(text: str, start: re.Match[str], tool_names: Collection[str]) -> _Found | None:
    name = start[2]
    if name is None:
        found, stop = read_json_calls(text, start.end())
        return _Found(found, _behind(text, stop)) if found else None
    if not start["tag"] and (name not in tool_names or not _is_begun(text[start.end() :])):
        return None
    end = _end(text, start.end())
    following = _CUT.search(text, start.end())
    if end is not None and not _opens_before(text, start.end(), end.start()):
        body, stop, closed = text[start.end() : end.start()], end.end(), True
    else:
        stop = following.start() if following else len(text)
        body, closed = text[start.end() : stop], following is not None
    return _Found([(name, _arguments(body, closed))], _behind(text, stop))


def _is_begun(rest: str) -> bool:
    """Say whether what follows a tag is a call's, not a sentence's that names the tag."""
    rest = rest.lstrip()
    begins = ("<parameter", "{", "[", '"', "</function")
    return rest.startswith(begins) or "<parameter".startswith(rest)


def _end(text: str, start: int) -> re.Match[str] | None:
    """Find the tag that ends a call: the first with structure behind it or a line of its own.

    A tag on a line of its own is a value's where the value goes on behind it.
    """
    if text.find("</function", start) < 0:
        return None  # a model that repeats itself opens thousands
    end, line = _END.search(text, start), _LINE_END.search(text, start)
    if end is None or line is None or end.start() <= line.start():
        return end or line
    between = text[line.end() : end.start()]
    return end if _LAST.search(between) and not _OPENS.search(between) else line


def _behind(text: str, stop: int) -> int:
    """Return where the closing tags end that follow a call."""
    closing = _CLOSING.match(text, stop)
    return closing.end() if closing else stop


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
