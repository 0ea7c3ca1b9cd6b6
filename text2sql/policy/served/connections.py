"""HTTP to policy servers: persistent connections, bounded answers, one kind of failure."""

from __future__ import annotations

import asyncio
import gzip
import io
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from text2sql.common.http import client_for, proxy_for
from text2sql.errors import Text2SqlError

if TYPE_CHECKING:
    import aiohttp

_CONNECT_SECONDS = 10.0
_KEEP_SECONDS = 4.0
"""Less than the 5 s after which uvicorn, which vLLM runs on, drops idle connections."""

_FINISHED = re.compile(rb'data:[^\n]*"finish_reason"\s*:\s*"')
_TAIL_SECONDS = 1.5  # for the usage, which follows the last part of a stream

_SECRET_CHARS = 8  # a shorter key, such as EMPTY, is no secret and may occur in any answer

MOST_BYTES = 64 << 20
"""A longer answer is not a chat completion."""


@dataclass(frozen=True)
class HttpAnswer:
    """A complete answer; the names of its headers are in lower case."""

    status: int
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)


class NoAnswer(Exception):
    """No complete answer came: connection refused or lost, garbled, late or endless."""


class Connections:
    """Sends requests from any number of event loops, each with connections of its own."""

    def __init__(self, api_key: str) -> None:
        self._key = api_key.strip()
        self._headers = {"Content-Type": "application/json", **authorization(api_key)}
        # An aiohttp session only works in the event loop that created it.
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def post(self, url: str, body: bytes, seconds: float) -> HttpAnswer:
        """Send one request and return the answer, which must be complete within ``seconds``.

        Redirects are not followed: a key must not travel to another server. Raises NoAnswer.
        """
        import aiohttp

        session = await self._session()
        proxy = proxy_for(url)
        try:
            async with (
                asyncio.timeout(seconds),
                session.post(url, data=body, proxy=proxy, allow_redirects=False) as response,
            ):
                content = await _content(response)
                return _answer(response.status, content, response.headers, self._key)
        except aiohttp.ClientConnectorCertificateError as error:
            raise _untrusted(url, error) from error
        except aiohttp.ServerDisconnectedError as error:
            raise NoAnswer("it closed the connection") from error
        except aiohttp.ClientResponseError as error:
            words = error.message.partition("\n")[0].rstrip(":")
            raise NoAnswer(f"its answer is not valid HTTP ({words[:80]})") from error
        except aiohttp.ClientError as error:
            raise NoAnswer(_reason(error)) from error
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {seconds:.3g} s") from error
        except OSError as error:
            raise NoAnswer(_reason(error)) from error

    async def close(self) -> None:
        """Close the connections of this event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _session(self) -> aiohttp.ClientSession:
        """Return this event loop's session; drop those of loops that have ended."""
        import aiohttp

        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            for ended in [other for other in self._sessions if other.is_closed()]:
                await self._sessions.pop(ended).close()
            self._sessions[loop] = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return self._sessions[loop]


async def _content(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    patience: float | None = None
    # Some servers leave a stream open after its end, or never write the end.
    while not content[-40:].rstrip().endswith(b"data: [DONE]"):
        try:
            part = await asyncio.wait_for(response.content.readany(), patience)
        except TimeoutError:
            if patience is None:
                raise
            break
        if not part:
            break
        content += part
        if len(content) > MOST_BYTES:
            raise NoAnswer(f"the answer is longer than {MOST_BYTES >> 20} MB")
        if patience is None and _FINISHED.search(content):
            patience = _TAIL_SECONDS
    return bytes(content)


def _untrusted(url: str, error: BaseException) -> Text2SqlError:
    """Return the error for a certificate that no authority known here has signed."""
    reason = re.sub(r"\s*\(_ssl\.c:\d+\)", "", str(error.__cause__ or error)).rpartition("] ")[2]
    return Text2SqlError(
        f"The certificate of {url.split('/')[2]} is not trusted ({reason[:200].rstrip('.')}); if "
        "your company signs its own, set SSL_CERT_FILE to the file with its certificates."
    )


def _answer(status: int, content: bytes, headers: Any, key: str) -> HttpAnswer:
    """Return an answer; the key is masked in errors, which are logged."""
    if len(key) >= _SECRET_CHARS and not (status == 200 and b'"choices"' in content):
        content = content.replace(key.encode(), b"[key]")
    return HttpAnswer(status, content, {name.lower(): value for name, value in headers.items()})


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


def fetch(url: str, api_key: str, seconds: float) -> HttpAnswer:
    """Get one page without an event loop; ``seconds`` bound each wait. Raises NoAnswer.

    Redirects are not followed: a key must not travel to another server.
    """
    import urllib3

    headers = authorization(api_key)
    try:
        with (
            client_for(url) as client,
            client.request(
                "GET", url, headers=headers, timeout=seconds, retries=False, redirect=False,
                preload_content=False,
            ) as found,
        ):  # fmt: skip
            content = found.read(MOST_BYTES, decode_content=False)
            if found.headers.get("Content-Encoding", "").lower() == "gzip":
                # A proxy may compress unasked; urllib3 would not notice an answer cut short.
                content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MOST_BYTES)
            return _answer(found.status, content, found.headers, api_key.strip())
    except urllib3.exceptions.SSLError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise _untrusted(url, error) from error
        raise NoAnswer(_reason(error)) from error
    except urllib3.exceptions.NewConnectionError as error:
        raise NoAnswer(_reason(error.__cause__ or error)) from error
    except (urllib3.exceptions.HTTPError, OSError, EOFError, zlib.error, ValueError) as error:
        raise NoAnswer(_reason(error)) from error


def authorization(api_key: str) -> dict[str, str]:
    """Return the header that carries a key; raises Text2SqlError if no header can."""
    key = api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise Text2SqlError(
            "The key for the policy server (TEXT2SQL_API_KEY) contains a line break or a non-ASCII "
            "character; set it again."
        )
    return {"Authorization": f"Bearer {key}"} if key else {}
