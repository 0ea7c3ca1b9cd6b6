"""One HTTP request for a file, and what its answer says of the file."""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from text2sql import __version__
from text2sql.errors import Text2SqlError

_SAFE = "%/:=&?~#+!$,;'@()*[]"
_PASSING = (408, 425, 429)


@dataclass(frozen=True)
class Answer:
    """A status, headers without regard to case, and the body to be read.

    ``start`` is where the body begins in the file, ``size`` how large the file is (-1: not told).
    """

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def start(self) -> int:
        """Return the first byte that a partial answer has; 0 for a whole one."""
        found = re.match(r"bytes (\d+)-\d+/", self.headers.get("Content-Range") or "")
        return int(found[1]) if found and self.status == 206 else 0

    @property
    def size(self) -> int:
        """Return the size of the whole file in bytes, -1 where the server does not tell."""
        if self.status in (206, 416):
            found = re.search(r"/(\d+)$", self.headers.get("Content-Range") or "")
            return int(found[1]) if found else -1
        length = self.headers.get("Content-Length") or ""
        return int(length) if length.isdigit() else -1

    @property
    def passing(self) -> bool:
        """Whether the refusal may be another in a while."""
        return self.status in _PASSING or self.status >= 500

    @property
    def wait(self) -> float:
        """Return the seconds that the server asks to wait, 0 where it says nothing of it."""
        text = self.headers.get("Retry-After") or ""
        return float(text) if text.isdigit() else 0.0


class Refused(Text2SqlError):
    """The server does not give the file, and will not in a while."""


def require_address(url: str) -> None:
    """Raise Text2SqlError for what is no address of a file on the web, or holds a password."""
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        known = False
    if not known:
        raise Text2SqlError(f"{shown(url)} is no http or https address.")
    if "@" in parts.netloc:
        raise Text2SqlError(f"{shown(url)} is given with a user: download it by other means.")


def ask(url: str, headers: Mapping[str, str], silence: float) -> Answer:
    """Send a request and return its answer, whatever the status; the caller closes its body.

    ``silence`` is how many seconds may pass without a byte. Raises Text2SqlError for an address
    that cannot be asked, OSError or http.client.HTTPException where no answer comes.
    """
    request = _request(url, headers)
    opener = urllib.request.build_opener(_Redirects)
    try:
        response: Any = opener.open(request, timeout=silence)
    except urllib.error.HTTPError as error:
        response = error
    except http.client.InvalidURL as error:
        raise Text2SqlError(f"{shown(url)} is no address: {error}.") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            reason = error.reason.verify_message
            raise Text2SqlError(f"{shown(url)} cannot be trusted: {reason}.") from error
        raise
    return Answer(response.status, response.headers, response)


def refuse_kind(answer: Answer, url: str) -> None:
    """Raise where an answer is not the file itself: a page to be read, or something encoded."""
    kind = (answer.headers.get("Content-Type") or "").lower()
    if kind.startswith(("text/html", "application/xhtml")):
        raise Text2SqlError(
            f"{shown(url)} answers with a web page instead of a file: give the address of the "
            "file itself, or download it with a browser and give its path."
        )
    encoding = answer.headers.get("Content-Encoding") or "identity"
    if encoding.lower() != "identity":
        raise Text2SqlError(f"{shown(url)} is sent as {encoding}; download it by other means.")


def refusal(status: int, url: str) -> Refused:
    """Return the error for a status that no retry mends."""
    if 300 <= status < 400:
        return Refused(
            f"{shown(url)} points to where it is not followed, or in a circle (status {status})."
        )
    hint = {
        401: "it needs an account; download it by other means and give its path",
        403: "it is not open to everyone; download it by other means and give its path",
        404: "there is no such file; check the address",
        410: "there is no such file any more; look for its new address",
    }.get(status, "it cannot be downloaded; check the address")
    return Refused(f"{shown(url)} answers with status {status}: {hint}.")


def shown(url: str) -> str:
    """Return an address as it may be shown: without user, query and fragment (signatures)."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return url.partition("?")[0]


def _request(url: str, headers: Mapping[str, str]) -> urllib.request.Request:
    always = {"User-Agent": f"text2sql/{__version__}", "Accept-Encoding": "identity"}
    try:
        address = urllib.parse.quote(url, safe=_SAFE)
        return urllib.request.Request(address, headers={**always, **headers})
    except ValueError as error:
        raise Text2SqlError(f"{shown(url)} is no address: {error}.") from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to HTTP only, and never from a protected to an open connection."""

    def redirect_request(  # type: ignore[no-untyped-def]
        self, req, fp, code, msg, headers, newurl
    ):
        target = urllib.parse.urlsplit(newurl).scheme
        if target not in ("http", "https") or (req.type == "https" and target == "http"):
            raise Text2SqlError(f"{shown(req.full_url)} points to {shown(newurl)}: not followed.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fault_of(error: Exception) -> str:
    """Say in words why no answer, or no more of it, came."""
    if isinstance(error, TimeoutError):
        return "the server is silent"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended early"
    reason = getattr(error, "reason", None) or error
    return f"the connection failed ({getattr(reason, 'strerror', None) or reason})"


def file_name(url: str) -> str:
    """Return the file's name in an address, with plain characters only."""
    last = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".")[-100:] or "download"
