"""Assemble a chat completion that a server streams although it was not asked to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_EVENT_END = re.compile(r"(?:\r\n|\n|\r){2,}")
_LINE_END = re.compile(r"\r\n|\n|\r")
_DONE = "[DONE]"
_TEXTS = ("content", "reasoning", "reasoning_content")
_CALL_FIELDS = ("index", "id", "type", "function")


class Broken(Exception):
    """The stream ended before its reply did, or contains something else than its chunks."""


def chunks_in(text: str) -> list[Any]:
    """Return the JSON of each event, ``[DONE]`` for the end; empty if it is not a stream."""
    return [chunk for event in _EVENT_END.split(text) for chunk in _data(event)]


def assembled(chunks: Iterable[Any]) -> dict[str, Any]:
    """Return the completion of a stream's chunks; raises Broken if it ended before the reply."""
    answer: dict[str, Any] = {}
    texts: dict[str, list[Any]] = {}
    others: dict[str, Any] = {}
    calls = _Calls()
    finish, ended, begun = None, False, False
    for chunk in chunks:
        ended = ended or chunk == _DONE
        fields = {} if chunk == _DONE else _fields(chunk)
        answer |= {key: value for key, value in fields.items() if value is not None}
        # Chunks of usage alone have no choice.
        for choice in map(_fields, fields.get("choices") or ()):
            if choice.get("index"):
                continue
            begun, finish = True, choice.get("finish_reason") or finish
            delta = _fields(choice.get("delta") or choice.get("message"))
            for key in _TEXTS:  # each a string or a list of parts
                if part := delta.get(key):
                    texts.setdefault(key, []).extend(part if isinstance(part, list) else [part])
            calls.add(delta)
            others |= own_fields(delta, (*_TEXTS, "role", "tool_calls", "function_call"))
    if not begun or not (finish or ended):
        raise Broken("the stream ended before the reply did")
    message: dict[str, Any] = {**others, "tool_calls": calls.entries}
    for key, parts in texts.items():
        only_text = all(isinstance(part, str) for part in parts)
        message[key] = "".join(parts) if only_text else parts
    return answer | {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


class _Calls:
    """The calls of a streamed message, assembled from their parts."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._places: dict[Any, dict[str, Any]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add the parts of one delta, including those of the older ``function_call``."""
        parts = list(delta.get("tool_calls") or ())
        if delta.get("function_call"):
            parts.append({"index": "function_call", "function": delta["function_call"]})
        for part in map(_fields, parts):
            function = _fields(part.get("function"))
            entry = self._entry(part.get("index"), part.get("id"), function.get("name"))
            entry["id"] = entry["id"] or part.get("id")
            entry |= own_fields(part, _CALL_FIELDS)
            known, arguments = entry["function"], function.get("arguments") or ""
            known["name"] = known["name"] or function.get("name")
            known["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def _entry(self, index: Any, identifier: Any, name: Any) -> dict[str, Any]:
        """Find the call that a part belongs to, or begin one.

        Some servers give each part its own identifier, each call the index 0, or no index at
        all: a part with both a name and a new identifier begins a call.
        """
        entry = self._places.get(("id", identifier)) or self._places.get(("index", index))
        if entry is None and index is None and not name and self.entries:
            entry = self.entries[-1]
        if entry is None or (name and identifier and entry["id"] not in (None, identifier)):
            entry = {"id": None, "type": "function", "function": {"name": None, "arguments": ""}}
            self.entries.append(entry)
        named = {"id": identifier, "index": index}
        self._places |= {(kind, key): entry for kind, key in named.items() if key is not None}
        return entry


def _data(event: str) -> Iterator[Any]:
    """Yield the data of one event: each line's JSON, or that of all its lines together."""
    lines = [line[5:].strip() for line in _LINE_END.split(event) if line.startswith("data:")]
    try:
        yield from [line if line == _DONE else json.loads(line) for line in lines if line]
    except (ValueError, RecursionError):
        text = "\n".join(lines)
        try:
            yield json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Broken(f"the stream contains {text[:80]!r} instead of JSON") from error


def _fields(value: Any) -> Mapping[str, Any]:
    """Return an object's fields, none for None; raises Broken for anything else."""
    if value is not None and not isinstance(value, dict):
        raise Broken(f"the stream contains a {type(value).__name__} instead of an object")
    return value or {}


def own_fields(entry: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a reply that go back as they came: all but known and empty ones."""
    names = set(known)
    return {
        key: value
        for key, value in entry.items()
        if key not in names and value not in (None, "", [], {})
    }
