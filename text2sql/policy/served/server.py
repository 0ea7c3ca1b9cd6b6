"""A policy behind an OpenAI-compatible server: one request a turn, retried within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import Message, PolicyInfo, Reply, Sampling
from text2sql.policy.served.address import api_roots, below
from text2sql.policy.served.connections import Connections, HttpAnswer, NoAnswer
from text2sql.policy.served.dialect import Dialect
from text2sql.policy.served.failures import BrokenCall, Retryable, completion_in, refusal
from text2sql.policy.served.replies import Unusable, read_reply, require_whole_prompt

_log = logging.getLogger(__name__)
_MOST_FORMS = 8  # more than a server can refuse one by one


@dataclass(frozen=True)
class Retry:
    """How often and how long to retry, in seconds.

    A Retry-After that fits the total is obeyed, but for no longer than ``longest_asked``.
    """

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 20.0
    longest_asked: float = 60.0
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
        # Each server's places of the API; the first is used, until it turns out to be wrong.
        self._roots = {(roots := api_roots(url))[0]: roots for url in urls}
        self.urls = list(self._roots)
        self.model = model
        self.info = PolicyInfo(model, revision or named_revision(model), revision is not None)
        self.retry = retry or Retry()
        self._connections = Connections(api_key)
        self._dialect = Dialect(model)
        self._seconds = request_seconds
        self._homes: dict[int, int] = {}
        self._proven = False

    @property
    def adaptations(self) -> list[str]:
        """How the server's form differs from OpenAI's, as learned so far: a sentence each."""
        return self._dialect.adaptations

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
        mistaken = False
        for attempt in range(self.retry.attempts):
            url = self._in_turn(home + attempt, free)
            try:
                answer = await self._ask(url, messages, tools, sampling, deadline)
                reply = read_reply(answer, tools, sampling.max_tokens)
            except BrokenCall as failure:
                # The model failed twice, not its server: the agent reads what it wrote.
                if mistaken or attempt + 1 == self.retry.attempts:
                    return read_reply(failure.completion, tools, sampling.max_tokens)
                mistaken = True
                continue
            except (NoAnswer, Retryable, Unusable) as failure:
                if (after := getattr(failure, "after", None)) is not None:
                    free[url] = time.monotonic() + self._wait_asked(url, after)
                asked = free.get(self._in_turn(home + attempt + 1, free))
                await self._before_next(attempt, failure, deadline, url, asked)
                continue
            require_whole_prompt(reply, messages, tools)
            return reply
        raise AssertionError("unreachable: the last attempt raises or returns")

    async def answer(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Any:
        """Ask the first server once, and return the JSON of its chat completion.

        Raises NoAnswer, Retryable, and what ``complete`` raises.
        """
        deadline = time.monotonic() + self._seconds
        return await self._ask(self.urls[0], messages, tools, sampling, deadline)

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

    def _wait_asked(self, url: str, seconds: float) -> float:
        """Return how long to wait for a server that asks for it: some ask for a day."""
        most = self.retry.longest_asked
        if seconds > most:
            _log.warning("%s asks for a wait of %.0f s: it gets %g s.", url, seconds, most)
        return min(seconds, most)

    async def _ask(
        self,
        url: str,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]],
        sampling: Sampling,
        deadline: float,
    ) -> Any:
        """Send a request in the server's form; return its JSON or raise what an error means."""
        for _ in range(_MOST_FORMS):
            body = self._dialect.body(messages, tools, sampling)
            left = min(self._seconds, max(1.0, deadline - time.monotonic()))
            answer = await self._post(url, body, left)
            if not self._dialect.learns(answer, body):
                break
        if not 200 <= answer.status < 300:
            raise refusal(answer, url, self.model, proven=self._proven)
        found = completion_in(answer)
        self._proven = True
        return found

    async def _post(self, url: str, body: bytes, seconds: float) -> HttpAnswer:
        """Send a request; until the server has answered once, try its other places of the API."""
        roots = self._roots[url]
        while True:
            root = roots[0]
            answer = await self._connections.post(below(root, "chat/completions"), body, seconds)
            elsewhere = answer.status in (404, 405) and self.model.encode() not in answer.content
            if self._proven or not elsewhere or (root == roots[0] and len(roots) == 1):
                return answer
            if root == roots[0]:  # else another rollout has moved on
                del roots[0]


def named_revision(model: str, detail: str = "") -> str:
    """Return 16 hex digits for a served model that declares no revision."""
    return hashlib.sha256(f"{model}\0{detail}".encode()).hexdigest()[:16]
