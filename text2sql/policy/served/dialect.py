"""How requests are written for one server: what it refuses is learned from its errors."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from typing import Any

from text2sql.policy.base import Message, Sampling
from text2sql.policy.served.connections import HttpAnswer
from text2sql.policy.served.failures import error_details, overflows

_log = logging.getLogger(__name__)

REASONING = ("reasoning", "reasoning_content", "reasoning_details")
"""The fields in which servers put reasoning; they are sent back with the history."""

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
_FULL_TOP_P = re.compile(rb'"top_p": 1(?:\.0)?[,}]')
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
        """Return a request; a lone surrogate becomes a question mark, as servers refuse it."""
        if not self._system and len(messages) > 1 and messages[0]["role"] == "system":
            system, user, *rest = messages
            opening = {**user, "content": f"{system['content']}\n\n{user['content']}"}
            messages = [opening, *rest]
        if not self._reasoning:
            messages = [
                {key: value for key, value in message.items() if key not in REASONING}
                for message in messages
            ]
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": list(messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self._limit: sampling.max_tokens,
        }
        if not self._top_p and sampling.top_p == 1.0:
            del payload["top_p"]
        if tools:
            payload["tools"] = list(tools)
        return json.dumps(payload, ensure_ascii=False).encode("utf-8", errors="replace")

    def learns(self, answer: HttpAnswer, body: bytes) -> bool:
        """Say whether a refused request can be written differently, and write later ones so."""
        if answer.status not in (400, 422) or overflows(answer.content):
            return False
        reason = error_details(answer.content)
        if _NEWER_LIMIT.search(reason) and b'"max_tokens": ' in body:
            self._limit = "max_completion_tokens"
            return True
        if _EXTRA.search(reason) and any(f'"{key}": '.encode() in body for key in REASONING):
            if self._reasoning:
                _log.warning("The server accepts no reasoning in the history: it is left out.")
            self._reasoning = False
            return True
        if _NO_TOP_P.search(reason) and _FULL_TOP_P.search(body):
            self._top_p = False  # a top_p of 1 is no limit
            return True
        if _NO_SYSTEM.search(reason) and b'"role": "system"' in body:
            if self._system:
                _log.warning("The server accepts no system message: it is sent as the user's.")
            self._system = False
            return True
        return False
