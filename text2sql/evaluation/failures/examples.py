"""A few failed rollouts with their transcripts, chosen so that different classes are seen."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

EXAMPLES = 10
TEXT_CHARS = 1500


def choose(
    classes: Mapping[str, Sequence[str]], first: Collection[str] = (), most: int = EXAMPLES
) -> list[str]:
    """Choose failed questions: each class in turn gives one, questions in ``first`` before others.

    ``classes`` has the classes of each failed question, the weightiest first; the order is always
    the same for the same input.
    """
    by_class: dict[str, list[str]] = {}
    for key in sorted(classes, key=lambda key: key not in first):
        by_class.setdefault(classes[key][0], []).append(key)
    queues = sorted(by_class.values(), key=len, reverse=True)
    longest = max(map(len, queues), default=0)
    turns = [queue[i] for i in range(longest) for queue in queues if i < len(queue)]
    return turns[:most]


def transcript(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Lay messages out as (who, text); calls are written as they were made, long texts are cut."""
    found = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):  # OpenAI's form with several pieces
            pieces = [one.get("text", "") if isinstance(one, Mapping) else one for one in content]
            content = "\n".join(map(str, pieces))
        if text := str(content).strip():
            found.append({"who": str(message["role"]), "text": _cut(text)})
        for call in message.get("tool_calls") or ():
            found.append({"who": "call", "text": _cut(_call(call))})
    return found


def _call(call: Mapping[str, Any]) -> str:
    function = call.get("function", call)
    arguments = function.get("arguments", "")
    try:
        values = json.loads(arguments, strict=False) if isinstance(arguments, str) else arguments
        shown = "\n".join(f"{name}: {value}" for name, value in values.items())
    except (ValueError, AttributeError):
        shown = str(arguments)
    return f"{function.get('name', '')}\n{shown}".strip()


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS:
        return text
    return f"{text[:TEXT_CHARS]}… [{len(text):,} characters]"
