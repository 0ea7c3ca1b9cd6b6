"""A policy behind an OpenAI-compatible server: one request a turn, retried within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
import time
import urllib.parse
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import Message, PolicyInfo, Reply, Sampling
from text2sql.policy.served.connections import Connections, NoAnswer
from text2sql.policy.served.dialect import Dialect
from text2sql.policy.served.failures import Retryable, completion_in, error_text, refusal
from text2sql.policy.served.replies import Unusable, read_reply

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retry:
    """How often and how long to retry, in seconds; a Retry-After that fits the total is obeyed."""

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 20.0
    total_seconds: float = 900.0

    def wait(self, attempt: int) -> float:
        """Draw the wait after a failed attempt (0 is the first): doubling, half of it random."""
        return min(self.longest_wait, self.first_wait * 2**attempt) * random.uniform(0.5, 1.0)


class ServerPolicy:
    """Replies from ``/v1/chat/completions`` of one server or of several equal ones.

    A conversation stays with one server, whose cache has its beginning; conversations are spread
    evenly. Safe to use from many rollouts and from several event loops.
    """

    def __init__(
        self,
        base_url: str | Sequence[str],
        model: str,
        api_key: str = "",
        revision: str | None = None,
        *,
        request_seconds: float = 600.0,
        retry: Retry | None = None,
    ) -> None:
        urls = [base_url] if isinstance(base_url, str) else list(base_url)
        if not urls or not model:
            raise Text2SqlError("A policy server needs a URL and the name of a model.")
        self.urls = [api_root(url) for url in urls]
        self.model = model
        self.info = PolicyInfo(model, revision or named_revision(model))
        self.retry = retry or Retry()
        self._connections = Connections(api_key)
        self._dialect = Dialect(model)
        self._seconds = request_seconds
        self._homes: dict[int, int] = {}
        self._proven = False

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Return the next assistant turn.

        Raises ContextOverflow, InfrastructureError after the last retry, and Text2SqlError for
        what no retry fixes: a refused key, a model that the server does not have.
        """
        # The first messages identify a conversation; the server that has them cached gets it again.
        opening = zlib.crc32(repr([m.get("content") for m in messages[:2]]).encode())
        home = self._homes.setdefault(opening, len(self._homes)) % len(self.urls)
        deadline = time.monotonic() + self.retry.total_seconds
        free: dict[str, float] = {}
        for attempt in range(self.retry.attempts):
            url = self._in_turn(home + attempt, free)
            try:
                # Written anew for each try: the dialect learns from refused requests.
                body = self._dialect.body(messages, tools, sampling)
                answer = await self._ask(url, body, deadline)
                reply = read_reply(answer, tools, sampling.max_tokens)
            except (NoAnswer, Retryable, Unusable) as failure:
                if (after := getattr(failure, "after", None)) is not None:
                    free[url] = time.monotonic() + after
                asked = free.get(self._in_turn(home + attempt + 1, free))
                await self._before_next(attempt, failure, deadline, url, asked)
                continue
            self._proven = True
            return reply
        raise AssertionError("unreachable: the last attempt raises")

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await self._connections.close()

    def _in_turn(self, turn: int, free: Mapping[str, float]) -> str:
        """Return the next server that can be asked now; ``free`` has the times of busy ones."""
        now, count = time.monotonic(), len(self.urls)
        ring = [self.urls[(turn + step) % count] for step in range(count)]
        return min(ring, key=lambda url: max(now, free.get(url, now)))

    async def _before_next(
        self, attempt: int, failure: Exception, deadline: float, url: str, asked: float | None
    ) -> None:
        """Wait before the next attempt, until ``asked`` if a server said when; or give up."""
        now = time.monotonic()
        wait = self.retry.wait(attempt)
        if asked is not None:
            wait = max(0.0, asked - now) + random.uniform(0, 0.1)
        last = attempt + 1 == self.retry.attempts
        if last or now + wait > deadline:
            tries = f"{attempt + 1} {'try' if attempt == 0 else 'tries'}"
            until = "" if last or asked is None else f"; it asks for a wait of {asked - now:,.0f} s"
            raise InfrastructureError(
                f"The policy server at {url} gave no reply in {tries}: {failure}{until}."
            ) from failure
        _log.debug("%s, try %d: %s; again in %.1f s", url, attempt + 1, failure, wait)
        await asyncio.sleep(wait)

    async def _ask(self, url: str, body: bytes, deadline: float) -> Any:
        """Send one request and return its JSON; raise what an error answer means."""
        left = min(self._seconds, max(1.0, deadline - time.monotonic()))
        answer = await self._connections.post(f"{url}/chat/completions", body, left)
        if self._dialect.learns(answer, body):
            raise Retryable(f"HTTP {answer.status}: {error_text(answer.content)}", after=0.0)
        if not 200 <= answer.status < 300:
            raise refusal(answer, url, self.model, proven=self._proven)
        return completion_in(answer)


def api_root(url: str) -> str:
    """Return the address of the API: ``http://host:8000`` gains ``/v1``."""
    try:
        parts = urllib.parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        valid = valid and not (parts.query or parts.fragment)
    except ValueError:
        valid = False
    if not valid:
        shown = re.sub(r"//.*@", "//", re.split(r"[?#]", url)[0])  # the rest may hold a key
        raise Text2SqlError(
            f"{shown!r} is not the address of a server; give a host, with port and path if "
            "needed, like http://127.0.0.1:8000/v1."
        )
    if "@" in parts.netloc:
        raise Text2SqlError(
            f"The address of the server at {parts.hostname} contains a name or password, which "
            "would be logged; set a key in TEXT2SQL_API_KEY instead."
        )
    root = re.sub(r"/(?:chat/completions|completions|models)\Z", "", url.strip().rstrip("/"))
    return root if re.search(r"/v\d+\Z", root) else f"{root}/v1"


def named_revision(model: str, detail: str = "") -> str:
    """Return 16 hex digits for a served model that declares no revision."""
    return hashlib.sha256(f"{model}\0{detail}".encode()).hexdigest()[:16]
