"""How requests are written for one server: all that is adapted, learned from its refusals.

What one rollout learns holds for every later request of the same policy, and is logged once.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any

from text2sql.policy.base import Message, Sampling
from text2sql.policy.served.connections import HttpAnswer
from text2sql.policy.served.failures import error_details, overflows

_log = logging.getLogger(__name__)

REASONING = ("reasoning", "reasoning_content", "reasoning_details")
"""The fields in which servers put reasoning; a server that refuses one is sent none."""

_MESSAGE_FIELDS = {"role", "content", "tool_calls", "tool_call_id"}
_CALL_FIELDS = {"id", "type", "function"}
_REFUSED = (
    r"extra|not\s(?:permitted|allowed|supported)|unsupported|unexpected|unknown|unrecogni[sz]ed"
    r"|does\snot\ssupport|deprecated|invalid\s(?:field|property|argument|parameter)"
)
_REFUSES = re.compile(_REFUSED, re.IGNORECASE)
_NEWER_LIMIT = re.compile(r"\buse\W+max_completion_tokens", re.IGNORECASE)
_NO_TOP_P = re.compile(
    rf"top_p.*(?:{_REFUSED}|cannot\sboth|only\sone)|(?:{_REFUSED}).*\btop_p\b",
    re.IGNORECASE | re.DOTALL,
)
_NO_TEMPERATURE = re.compile(
    rf"temperature.*(?:{_REFUSED}|\bonly\b|\bdefault\b|strictly\spositive"
    rf"|must\sbe\s(?:set\sto\s|equal\sto\s)?1(?:\.0)?\b)"
    rf"|(?:{_REFUSED}|\bonly\b).*\btemperature\b",
    re.IGNORECASE | re.DOTALL,
)
_NO_SYSTEM = re.compile(
    r"system\s(?:role|message|prompt|instruction)s?\W.*not\s(?:supported|allowed|enabled)"
    r"|not\s(?:support|allow).*\bsystem\b",
    re.IGNORECASE | re.DOTALL,
)
_NO_EMPTY = re.compile(
    r"(?:content|text|message).*(?:\bempty\b|non-?empty|at\sleast\s1\s+character|too\sshort)"
    r"|\bempty\s(?:content|text|message)",
    re.IGNORECASE | re.DOTALL,
)


class Dialect:
    """The form of one policy's requests, as its server takes them.

    ``adaptations`` has a sentence for each difference from OpenAI's form that was learned.
    """

    def __init__(self, model: str) -> None:
        self.adaptations: list[str] = []
        self._model = model
        self._limit = "max_tokens"
        self._left_out: set[str] = set()
        self._system = True
        self._beside_calls: str | None = ""

    def body(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> bytes:
        """Return a request; a lone surrogate becomes a question mark, as servers refuse it."""
        messages = [self._message(message) for message in messages]
        if not self._system and len(messages) > 1 and messages[0]["role"] == "system":
            system, user, *rest = messages
            opening = {**user, "content": f"{system['content']}\n\n{user['content']}"}
            messages = [opening, *rest]
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self._limit: sampling.max_tokens,
        }
        if "temperature" in self._left_out:
            del payload["temperature"]
        if "top_p" in self._left_out and sampling.top_p == 1.0:  # another value is the user's wish
            del payload["top_p"]
        if tools:
            payload["tools"] = list(tools)
        return json.dumps(payload, ensure_ascii=False).encode("utf-8", errors="replace")

    def _message(self, message: Message) -> Message:
        """Return a message of the history without the fields that the server refuses."""
        kept = {key: value for key, value in message.items() if key not in self._left_out}
        if calls := kept.get("tool_calls"):
            kept["content"] = kept["content"] or self._beside_calls
            kept["tool_calls"] = [
                {key: value for key, value in call.items() if key not in self._left_out}
                for call in calls
            ]
        return kept

    def learns(self, answer: HttpAnswer, body: bytes) -> bool:
        """Say whether a refused request can be written differently, and write later ones so."""
        if answer.status not in (400, 422) or overflows(answer.content):
            return False
        reason, sent = error_details(answer.content), json.loads(body)
        if _NEWER_LIMIT.search(reason) and "max_tokens" in sent:
            self._limit = "max_completion_tokens"
            self._adapt("max_completion_tokens is sent instead of max_tokens")
        elif refused := _own_fields(sent["messages"]) & _named_in(reason):
            if refused & set(REASONING):
                refused |= set(REASONING)
                self._adapt("it accepts no reasoning in the history: it is left out")
            else:
                names = ", ".join(sorted(refused))
                self._adapt(f"it accepts no {names} in the history, although it sent it: left out")
            self._left_out |= refused
        elif _NO_TOP_P.search(reason) and sent.get("top_p") == 1.0:
            self._left_out.add("top_p")  # a top_p of 1 is no limit
            self._adapt("it accepts no top_p of 1: it is left out")
        elif _NO_TEMPERATURE.search(reason) and "temperature" in sent:
            self._left_out.add("temperature")
            self._adapt("it accepts only its own temperature, so no reply is greedy")
        elif _NO_SYSTEM.search(reason) and sent["messages"][0]["role"] == "system":
            self._system = False
            self._adapt("it accepts no system message: it is sent as the user's")
        elif _NO_EMPTY.search(reason) and b'"content": ""' in body:
            self._beside_calls = None
            self._adapt("it accepts no empty text beside calls: null is sent")
        else:
            return False
        return True

    def _adapt(self, sentence: str) -> None:
        """Note an adaptation; rollouts at the same time may learn the same one."""
        if sentence not in self.adaptations:
            self.adaptations.append(sentence)
            _log.warning("The server of %s differs: %s.", self._model, sentence)


def _own_fields(messages: Iterable[Message]) -> set[str]:
    """Return the names of the server's own fields in a history."""
    found: set[str] = set()
    for message in messages:
        found |= message.keys() - _MESSAGE_FIELDS
        for call in message.get("tool_calls") or ():
            found |= call.keys() - _CALL_FIELDS
    return found


def _named_in(reason: str) -> set[str]:
    """Return the words of a refusal of fields; none if it refuses something else."""
    return set(re.findall(r"\w+", reason)) if _REFUSES.search(reason) else set()
