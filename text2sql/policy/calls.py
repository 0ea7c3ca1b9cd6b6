"""Read tool calls and thoughts out of the text that a model wrote, leniently but never by guessing.

Servers with the wrong parser leave calls in the content, and models drop tags. The rules for
Qwen's XML form: a call needs a ``function`` tag whose name is a known tool, or any name inside a
``tool_call`` tag; a parameter ends at the closing tag that is followed by structure, so SQL may
contain the markers; a call that is cut off keeps its raw text as arguments, which no tool accepts.
The Hermes form, calls as JSON, is what Qwen's models before 3.5 write.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection
from typing import Any

from text2sql.policy.base import ToolCall

# The end of a thought is never inside a string; its beginning stands first on a line.
_THOUGHT_END = re.compile(r"</think(?:ing)?>(?!['\"%])")
_THOUGHT_START = re.compile(r"^[ \t]*<think(?:ing)?>", re.MULTILINE)

Named = tuple[str, str]
"""The name of a tool, and its arguments as JSON text."""

_DECODER = json.JSONDecoder(strict=False)
_NEXT_OBJECT = re.compile(r"[\s,;]*(?=\{)")
_SURPLUS = re.compile(r"[\s}]*(?=</tool_call>)")
_FENCED = re.compile(r"```\w*\s*([\[{].*[\]}])\s*```", re.DOTALL)
_HAS_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:')

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
_TAG_LINE = re.compile(r"^<tool_call>\s*$", re.MULTILINE)
# The last closing tag may be cut: a server's stop text ends it, and what it closes is complete.
_CLOSING_TAGS = {"p": "parameter", "f": "function", "t": "tool_call"}
_CUT_TAG = re.compile(
    r"</(p(?:arameter|aramete|aramet|arame|aram|ara|ar|a)?"
    r"|f(?:unction|unctio|uncti|unct|unc|un|u)?"
    r"|t(?:ool_call|ool_cal|ool_ca|ool_c|ool_|ool|oo|o)?)\Z"
)
_CALL_BEGINS = ("<parameter", "{", "[", '"', "</function")


def parse_calls(text: str, tool_names: Collection[str]) -> tuple[list[ToolCall], str]:
    """Return the calls in ``text``, in order, and the text around them.

    Values are strings, as written; a tool converts what it needs. Without a call the text is
    returned unchanged. Nothing inside thinking is a call.
    """
    thought, rest = split_thinking(text)
    rest = _CUT_TAG.sub(lambda cut: f"</{_CLOSING_TAGS[cut[1][:1]]}>", rest)
    calls: list[Named] = []
    kept: list[str] = []
    position = 0
    while start := _OPEN.search(rest, position):
        passed = thinking_until(rest, position, start.start())
        found, end = ([], passed) if passed else _read(rest, start, tool_names)
        kept.append(rest[position : start.start() if found else end])
        calls += found
        position = end
    if not calls and (calls := _only_calls(rest, tool_names)):
        position = len(rest)
    if not calls:
        return [], text
    kept.append(rest[position:])
    return [ToolCall(new_call_id(), *call) for call in calls], (thought + "".join(kept)).strip()


def new_call_id() -> str:
    """Return an identifier that is unique in its conversation; Mistral takes 9 characters."""
    return uuid.uuid4().hex[:9]


def _read(text: str, start: re.Match[str], names: Collection[str]) -> tuple[list[Named], int]:
    """Return the calls that a tag opens, and where they end; none for a tag that text mentions."""
    name, begin = start[2], start.end()
    if name is None:
        found, stop = _json_calls(text, begin)
        return (found, _behind(text, stop)) if found else ([], begin)
    if not start["tag"]:
        rest = text[begin:].lstrip()
        begun = rest.startswith(_CALL_BEGINS) or "<parameter".startswith(rest)
        if name not in names or not begun:
            return [], begin
    end = _end(text, begin)
    following = _CUT.search(text, begin)
    if end is not None and not _TAG_LINE.search(text[begin : end.start()]):
        body, stop, closed = text[begin : end.start()], end.end(), True
    else:
        stop = following.start() if following else len(text)
        body, closed = text[begin:stop], following is not None
    return [(name, _arguments(body, closed))], _behind(text, stop)


def _end(text: str, start: int) -> re.Match[str] | None:
    """Find the tag that ends a call: the first one before structure or on its own line."""
    if text.find("</function", start) < 0:
        return None  # saves time: a model that repeats itself opens thousands
    end, line = _END.search(text, start), _LINE_END.search(text, start)
    if end is None or line is None or end.start() <= line.start():
        return end or line
    between = text[line.end() : end.start()]
    return end if _LAST.search(between) and not _OPENS.search(between) else line


def _behind(text: str, stop: int) -> int:
    """Return the end of the closing tags after a call."""
    closing = _CLOSING.match(text, stop)
    return closing.end() if closing else stop


def _arguments(body: str, closed: bool) -> str:
    """Return the parameters as a JSON object, or the raw body if the call was cut off.

    A body that is a JSON object, as in Llama's ``<function=NAME>{...}</function>``, is returned
    unchanged.
    """
    if isinstance(loaded(body), dict) or not (closed or _LAST.search(body)):
        return body.strip()
    values: dict[str, str] = {}
    opening = _FIRST.match(body)
    while opening:
        following = _NEXT.search(body, opening.end())
        value = body[opening.end() : following.start() if following else len(body)]
        value = _LAST.sub("", value).removeprefix("\r").removeprefix("\n")
        values[opening[1]] = value.removesuffix("\n").removesuffix("\r")
        opening = following
    return json.dumps(values, ensure_ascii=False)


def _json_calls(text: str, start: int) -> tuple[list[Named], int]:
    """Read ``{"name": ..., "arguments": {...}}``, one, several or a list; return also the end."""
    found: list[Named] = []
    at: int | None = start
    while at is not None and (value := _decoded(text, at)):
        calls = [_named(entry) for entry in (value[0] if isinstance(value[0], list) else value[:1])]
        if not calls or None in calls:
            break
        found += [call for call in calls if call]
        start = value[1]
        following = _NEXT_OBJECT.match(text, start)
        at = following.end() if following else None
    surplus = _SURPLUS.match(text, start) if found else None
    return found, surplus.end() if surplus else start


def _only_calls(text: str, tool_names: Collection[str]) -> list[Named]:
    """Return the calls of a text that is only their JSON, perhaps in a fence; else none."""
    fenced = _FENCED.fullmatch(text.strip())
    body = fenced[1] if fenced else text.strip()
    if not body.startswith(("{", "[")) or not _HAS_ARGUMENTS.search(body):
        return []
    calls, end = _json_calls(body, 0)
    whole = end == len(body) and all(name in tool_names for name, _ in calls)
    return calls if whole else []


def _decoded(text: str, start: int) -> tuple[Any, int] | None:
    """Decode one value, even in doubled braces or without the last brace before a closing tag."""
    doubled = text.startswith("{{", start)
    try:
        value, end = _DECODER.raw_decode(text, start + doubled)
        return value, end + (doubled and text.startswith("}", end))
    except (ValueError, RecursionError):
        end = text.find("</tool_call>", start)
        end = len(text) if end < 0 else end
        body = text[start:end].rstrip()
        value = loaded(body + "}") or loaded(body + "}}")
        return None if value is None else (value, end)


def loaded(text: str, *, strict: bool = False) -> Any:
    """Read JSON, with raw line breaks in texts, as models write them; None if it is invalid.

    NaN and Infinity are invalid: servers refuse them in a history.
    """
    try:
        return json.loads(text, strict=strict, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _named(entry: Any) -> Named | None:
    """Return a call's name and arguments; Llama's templates call these ``parameters``."""
    if isinstance(entry, dict) and isinstance(entry.get("function"), dict):
        entry = entry["function"]
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    arguments = entry.get("arguments") or entry.get("parameters") or {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return entry["name"], arguments


def split_thinking(text: str) -> tuple[str, str]:
    """Return the thinking at the beginning of a text, with its tags, and the rest.

    The opening tag may be missing, since chat templates write it; without the closing one
    everything is thinking.
    """
    if end := _THOUGHT_END.search(text):
        return text[: end.end()], text[end.end() :]
    return (text, "") if _THOUGHT_START.match(text.lstrip()) else ("", text)


def thinking_until(text: str, start: int, end: int) -> int:
    """Return the end of thinking that begins in between and continues after ``end``; else 0."""
    begun = [match.start() for match in _THOUGHT_START.finditer(text[start:end])]
    if not begun or _THOUGHT_END.search(text[start:end], begun[-1]):
        return 0
    closing = _THOUGHT_END.search(text, end)
    return closing.end() if closing else len(text)


def spoken(text: str) -> str:
    """Return a text without its thoughts, and without what precedes a lone closing tag."""
    said: list[str] = []
    rest = split_thinking(text)[1]
    while beginning := _THOUGHT_START.search(rest):
        said.append(rest[: beginning.start()])
        end = _THOUGHT_END.search(rest, beginning.end())
        rest = rest[end.end() :] if end else ""
    left = "".join([*said, rest])
    ends = [match.end() for match in _THOUGHT_END.finditer(left)]
    return left[ends[-1] :] if ends else left
