"""How a request is written for one server: what it refuses is learned from its words."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from text2sql.policy.base import Message, Sampling
from text2sql.policy.served.connections import Answer
from text2sql.policy.served.failures import overflows, told

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
_NO_TOP_P = re.compile(
    r"top_p.*(?:cannot\sboth|not\s(?:permitted|allowed|supported)|unsupported|only\sone)"
    r"|(?:unsupported|unexpected|unknown|unrecogni[sz]ed).*\btop_p\b",
    re.IGNORECASE | re.DOTALL,
)
_WHOLE_NUCLEUS = re.compile(rb'"top_p": 1(?:\.0)?[,}]')
_NO_SYSTEM = re.compile(
    r"system\s(?:role|message|prompt)s?\W.*not\s(?:supported|allowed)"
    r"|not\s(?:support|allow).*\bsystem\b",
    re.IGNORECASE | re.DOTALL,
)


class Dialect:
    """The form of one policy's requests, as its server takes them."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._limit = "max_tokens"
        self._reasoning = self._top_p = self._system = True

    def body(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> bytes:
        """Return a request; half of a surrogate pair becomes a question mark, as servers want."""
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": [self._sent(message) for message in self._opened(messages)],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self._limit: sampling.max_tokens,
        }
        if not self._top_p and sampling.top_p == 1.0:
            del payload["top_p"]
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
        return self._learns_less(reason, body)

    def _learns_less(self, reason: str, body: bytes) -> bool:
        """Leave out a nucleus that is no limit, and give the user what the system should say."""
        if _NO_TOP_P.search(reason) and _WHOLE_NUCLEUS.search(body):
            self._top_p = False
            return True
        if _NO_SYSTEM.search(reason) and b'"role": "system"' in body:
            if self._system:
                _log.warning("The server takes no system message: the user says what it held.")
            self._system = False
            return True
        return False

    def _opened(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages; the first two as one where the server takes no system message."""
        if self._system or len(messages) < 2 or messages[0]["role"] != "system":
            return messages
        system, user, *rest = messages
        return [{**user, "content": f"{system['content']}\n\n{user['content']}"}, *rest]

    def _sent(self, message: Message) -> Mapping[str, Any]:
        if self._reasoning or not any(key in message for key in REASONING):
            return message
        return {key: value for key, value in message.items() if key not in REASONING}
