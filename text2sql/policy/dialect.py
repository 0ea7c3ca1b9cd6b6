"""How a request is written for one server: what it refuses is learned from its words."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from text2sql.policy.base import Message, Sampling
from text2sql.policy.connections import Answer
from text2sql.policy.failures import overflows, told

_log = logging.getLogger(__name__)

REASONING = ("reasoning", "reasoning_content", "reasoning_details")
"""The fields in which servers put what a model thought; they go back with the history."""

_NEWER_LIMIT = re.compile(r"\buse\W+max_completion_tokens", re.IGNORECASE)
_EXTRA = re.compile(
    r"(?:extra|not\s(?:permitted|allowed|supported)|unsupported|unexpected|unknown|unrecogni[sz]ed)"
    r".*\breasoning(?:_content|_details)?\b"
    r"|\breasoning(?:_content|_details)?\b.*(?:extra|not\s(?:permitted|allowed|supported)|unsup)",
    re.IGNORECASE | re.DOTALL,
)


class Dialect:
    """The form of one policy's requests, as its server takes them."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._limit = "max_tokens"
        self._reasoning = True

    def body(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> bytes:
        """Return a request; half of a surrogate pair becomes a question mark, as servers want."""
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": [self._sent(message) for message in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self._limit: sampling.max_tokens,
        }
        if tools:
            payload["tools"] = list(tools)
        return json.dumps(payload, ensure_ascii=False).encode("utf-8", errors="replace")

    def learns(self, answer: Answer, body: bytes) -> bool:
        """Say whether a request that was refused can be written otherwise; the next ones are."""
        if answer.status not in (400, 422) or overflows(answer.content):
            return False
        reason = told(answer.content)
        if _NEWER_LIMIT.search(reason) and b'"max_tokens": ' in body:
            self._limit = "max_completion_tokens"
            return True
        if _EXTRA.search(reason) and any(f'"{key}": '.encode() in body for key in REASONING):
            if self._reasoning:
                _log.warning("The server takes no reasoning in the history: it is left out.")
            self._reasoning = False
            return True
        return False

    def _sent(self, message: Message) -> Mapping[str, Any]:
        if self._reasoning or not any(key in message for key in REASONING):
            return message
        return {key: value for key, value in message.items() if key not in REASONING}
