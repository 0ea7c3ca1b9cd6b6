"""A policy behind an OpenAI-compatible server: one request a turn, retried within bounds."""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import json
import random
import re
import time
import urllib.parse
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow, Message, PolicyInfo, Reply, Sampling
from text2sql.policy.replies import Unusable, read_reply

if TYPE_CHECKING:
    import httpx

_OVERFLOW = re.compile(
    r"context (?:length|size|window)|context_length|maximum model length|max_model_len", re.I
)
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 524, 529})
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Retry:
    """How long to insist: tries in all, the first and the longest wait, the total in seconds.

    A server's Retry-After is obeyed where it fits into the total.
    """

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 20.0
    total_seconds: float = 900.0

    def wait(self, attempt: int) -> float:
        """Draw the wait after a failed attempt (0 is the first): doubling, half of it random."""
        return min(self.longest_wait, self.first_wait * 2**attempt) * random.uniform(0.5, 1.0)


class _Retryable(Exception):
    """A failure that may pass; ``after`` is the wait that the server asked for, in seconds."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class ServerPolicy:
    """Replies from ``/v1/chat/completions`` of one server or of several equal ones.

    A conversation stays with one server, whose cache has its beginning; conversations are
    spread evenly. Safe to use from many rollouts and from several event loops.
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
        self.requests = 0
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._seconds = request_seconds
        self._homes: dict[int, int] = {}
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Return the next assistant turn.

        Raises ContextOverflow, InfrastructureError after the last retry, and Text2SqlError for
        what no retry mends: a refused key, a model that the server does not have.
        """
        body = json.dumps(self._payload(messages, tools, sampling)).encode()
        home = self._home(messages)
        deadline = time.monotonic() + self.retry.total_seconds
        for attempt in range(self.retry.attempts):
            url = self.urls[(home + attempt) % len(self.urls)]
            try:
                answer = await self._post(url, body, deadline)
                return read_reply(answer, tools, sampling.max_tokens)
            except (_Retryable, Unusable) as failure:
                await self._before_next(attempt, failure, deadline, url)
        raise AssertionError("unreachable: the last attempt raises")

    async def close(self) -> None:
        """Close the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _payload(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        if tools:
            payload["tools"] = list(tools)
        return payload

    def _home(self, messages: Sequence[Message]) -> int:
        """Return the server of a conversation, by what it opens with."""
        opening = zlib.crc32(repr([m.get("content") for m in messages[:2]]).encode())
        return self._homes.setdefault(opening, len(self._homes)) % len(self.urls)

    async def _before_next(
        self, attempt: int, failure: Exception, deadline: float, url: str
    ) -> None:
        """Wait before the next attempt, or give up with the reason."""
        asked = getattr(failure, "after", None)
        wait = self.retry.wait(attempt) if asked is None else asked + random.uniform(0, 0.1)
        last = attempt + 1 == self.retry.attempts
        if last or time.monotonic() + wait > deadline:
            tries = f"{attempt + 1} {'try' if attempt == 0 else 'tries'}"
            raise InfrastructureError(
                f"The policy server at {url} gave no reply in {tries}: {failure}."
            ) from failure
        await asyncio.sleep(wait)

    async def _post(self, url: str, body: bytes, deadline: float) -> Any:
        """Send one request and return its JSON; raise what the answer means."""
        import httpx

        left = min(self._seconds, max(1.0, deadline - time.monotonic()))
        self.requests += 1
        try:
            async with asyncio.timeout(left):
                response = await self._client().post(f"{url}/chat/completions", content=body)
        except TimeoutError as error:
            raise _Retryable(f"no answer within {left:.0f} s") from error
        except httpx.RequestError as error:
            raise _Retryable(str(error) or type(error).__name__) from error
        if response.status_code == 200:
            return _decoded(response.content)
        raise self._refusal(url, response)

    def _refusal(self, url: str, response: httpx.Response) -> Exception:
        """Turn an error answer into the exception it means."""
        code, reason = response.status_code, error_text(response.content)
        if code in (400, 413, 422) and _OVERFLOW.search(reason):
            return ContextOverflow(reason)
        if code in _RETRIED:
            after = _retry_after(response.headers.get("retry-after"))
            return _Retryable(f"HTTP {code}: {reason}", after)
        if "enable-auto-tool-choice" in reason:
            return Text2SqlError(f"The policy server at {url} cannot call tools: {reason}.")
        if code in (401, 403):
            return Text2SqlError(f"The policy server at {url} refused the key (HTTP {code}).")
        if code == 404:
            return Text2SqlError(
                f"The policy server at {url} has no model {self.model!r} or no chat completions: "
                f"{reason}."
            )
        return InfrastructureError(f"The policy server at {url} answered HTTP {code}: {reason}.")

    def _client(self) -> httpx.AsyncClient:
        """Return the client of the running event loop, with connections that stay open."""
        import httpx

        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = httpx.AsyncClient(
                headers={"Content-Type": "application/json", **self._headers},
                timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
                trust_env=not all(is_loopback(url) for url in self.urls),
            )
            self._clients[loop] = client
        return client


def api_root(url: str) -> str:
    """Return the address under which the API lies: ``http://host:8000`` gains ``/v1``."""
    try:
        parts = urllib.parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise Text2SqlError(f"{url!r} is no address of a server, like http://127.0.0.1:8000/v1.")
    root = url.rstrip("/").removesuffix("/chat/completions")
    return root if re.search(r"/v\d+\Z", root) else f"{root}/v1"


def is_loopback(url: str) -> bool:
    """Say whether a server runs on this machine, where no proxy belongs in between."""
    host = urllib.parse.urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def named_revision(model: str, detail: str = "") -> str:
    """Return 16 hex digits for a served model that declares no revision of its own."""
    return hashlib.sha256(f"{model}\0{detail}".encode()).hexdigest()[:16]


def error_text(content: bytes) -> str:
    """Return the message of an error answer, at most 300 characters."""
    text = content[:20_000].decode("utf-8", errors="replace")
    try:
        answer = json.loads(text)
    except ValueError:
        answer = text
    if isinstance(answer, dict):
        answer = answer.get("error", answer.get("detail", answer.get("message", answer)))
    if isinstance(answer, dict):
        answer = answer.get("message", answer)
    return " ".join(str(answer).split())[:300].rstrip(".") or "no reason given"


def _decoded(content: bytes) -> Any:
    """Read a successful answer, in which a server may still report an error."""
    text = content.decode("utf-8", errors="replace")
    if text.lstrip().startswith("data:"):
        events = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
        failed = [event for event in events if '"error"' in event]
        reason = error_text(failed[0].encode()) if failed else "a stream that was not asked for"
        raise _Retryable(reason)
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise _Retryable(f"the answer is not JSON: {text[:80]!r}") from error
    if isinstance(answer, dict) and answer.get("error"):
        raise _Retryable(error_text(content))
    return answer


def _retry_after(value: str | None) -> float | None:
    """Read a Retry-After header, in seconds or as a date; None where there is none."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())
