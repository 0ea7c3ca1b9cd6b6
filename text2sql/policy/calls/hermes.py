"""Tool calls written as JSON: the Hermes form, which Qwen's models before 3.5 write."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

Named = tuple[str, str]
"""The name of a tool, and its arguments as JSON text."""

_DECODER = json.JSONDecoder(strict=False)
_NEXT = re.compile(r"[\s,;]*(?=\{)")
_SURPLUS = re.compile(r"[\s}]*(?=</tool_call>)")
_FENCED = re.compile(r"```\w*\s*([\[{].*[\]}])\s*```", re.DOTALL)
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:')


def read_json_calls(text: str, start: int) -> tuple[list[Named], int]:
    """Read ``{"name": ..., "arguments": {...}}`` at ``start``, several in a row, or a list.

    Returns the calls and where they end. Without a call the list is empty.
    """
    found: list[Named] = []
    at: int | None = start
    while at is not None and (value := _decoded(text, at)):
        calls = [_named(entry) for entry in _as_list(value[0])]
        if not calls or None in calls:
            break
        found += [call for call in calls if call]
        start = value[1]
        following = _NEXT.match(text, start)
        at = following.end() if following else None
    surplus = _SURPLUS.match(text, start) if found else None
    return found, surplus.end() if surplus else start


def only_calls(text: str, tool_names: Collection[str]) -> list[Named]:
    """Return the calls where a text is nothing but their JSON, perhaps in a fence; else none."""
    fenced = _FENCED.fullmatch(text.strip())
    body = fenced[1] if fenced else text.strip()
    if not body.startswith(("{", "[")) or not _ARGUMENTS.search(body):
        return []
    calls, end = read_json_calls(body, 0)
    whole = end == len(body) and all(name in tool_names for name, _ in calls)
    return calls if whole else []


def _decoded(text: str, start: int) -> tuple[Any, int] | None:
    """Decode one value, also in doubled braces, or without its last one before the closing tag."""
    doubled = text.startswith("{{", start)
    try:
        value, end = _DECODER.raw_decode(text, start + doubled)
        return value, end + (doubled and text.startswith("}", end))
    except (ValueError, RecursionError):
        end = text.find("</tool_call>", start)
        value = _loaded(f"{text[start:end]}}}") if end > start else None
        return None if value is None else (value, end)


def _loaded(text: str) -> Any:
    """Read JSON, line breaks within a text too; None for none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


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
