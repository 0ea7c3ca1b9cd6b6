"""One HTTP request for a file: addresses, redirects, and errors as sentences."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

import urllib3

from text2sql import __version__
from text2sql.common.http import client_for
from text2sql.errors import Text2SqlError

_SAFE = "%/:=&?~#+!$,;'@()*[]"
_MOST_REDIRECTS = 10

Response = urllib3.BaseHTTPResponse


class Refused(Text2SqlError):
    """The server does not give the file, and retrying soon will not help."""


class Interrupted(Exception):
    """The file did not come, or not all of it, and a retry may help; ``str`` says why.

    ``wait`` is how many seconds the server asks to wait.
    """

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def is_url(place: str) -> bool:
    """Whether a place is an address on the web."""
    return "://" in place


def require_address(url: str) -> None:
    """Raise Text2SqlError unless ``url`` is an http or https address without a user."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not a number
        host = parts.hostname if not re.search(r"\s", parts.netloc) else None
        valid = parts.scheme in ("http", "https") and bool(host)
    except ValueError:
        valid = False
    if not valid:
        raise Text2SqlError(f"{shown(url)} is not an http or https address.")
    if "@" in parts.netloc:
        raise Text2SqlError(f"{shown(url)} contains a user; download it by other means.")


def ask(url: str, headers: Mapping[str, str], silence: float) -> Response:
    """Send a request and return the response, whatever its status; the caller closes it.

    Redirects are followed to http and https, but never from https to http. ``silence`` is how
    many seconds may pass without a byte. Raises Text2SqlError for an invalid address and
    Interrupted if there is no response.
    """
    headers = {"User-Agent": f"text2sql/{__version__}", "Accept-Encoding": "identity", **headers}
    address = quote(url, safe=_SAFE)
    for _ in range(_MOST_REDIRECTS):
        try:
            response = client_for(address).request(
                "GET", address, headers=headers, timeout=silence, retries=False, redirect=False,
                preload_content=False,
            )  # fmt: skip
        except urllib3.exceptions.LocationValueError as error:
            raise Text2SqlError(f"{shown(url)} is not a valid address: {error}.") from error
        except urllib3.exceptions.HTTPError as error:
            for cause in _chain(error):
                if isinstance(cause, ssl.SSLCertVerificationError):
                    reason = cause.verify_message
                    raise Text2SqlError(f"{shown(url)} cannot be trusted: {reason}.") from error
            raise Interrupted(problem_of(error)) from error
        target = response.headers.get("Location")
        if response.status not in (301, 302, 303, 307, 308) or not target:
            return response
        response.close()
        target = quote(urljoin(address, target), safe=_SAFE)
        schemes = urlsplit(address).scheme, urlsplit(target).scheme
        if schemes[1] not in ("http", "https") or schemes == ("https", "http"):
            raise Text2SqlError(
                f"{shown(address)} redirects to {shown(target)}, which is not followed."
            )
        address = target
    raise Refused(f"{shown(url)} redirects more than {_MOST_REDIRECTS} times; check the address.")


def problem_of(error: BaseException) -> str:
    """Return in words why there was no response, or no more of it."""
    reasons = [one.strerror for one in _chain(error) if isinstance(one, OSError) and one.strerror]
    # A refused connection is a TimeoutError to urllib3, too.
    if not reasons and isinstance(error, urllib3.exceptions.TimeoutError):
        return "the server is silent"
    return f"the connection failed ({reasons[0] if reasons else error})"


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and those that caused it."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def require_file(response: Response, url: str) -> None:
    """Raise Text2SqlError if a response is a web page, or compressed in transit."""
    kind = response.headers.get("Content-Type", "").lower()
    if kind.startswith(("text/html", "application/xhtml")):
        raise Text2SqlError(
            f"{shown(url)} answers with a web page instead of a file: give the address of the "
            "file itself, or download it with a browser and give its path."
        )
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise Text2SqlError(f"{shown(url)} is sent as {encoding}; download it by other means.")


def refusal(status: int, url: str) -> Refused:
    """Return the error for a status that retrying does not change."""
    hint = {
        401: "it needs an account; download it by other means and give its path",
        403: "it is not open to everyone; download it by other means and give its path",
        404: "there is no such file; check the address",
        410: "the file was removed; look for its new address",
    }.get(status, "it cannot be downloaded; check the address")
    return Refused(f"{shown(url)} answers with status {status}: {hint}.")


def shown(url: str) -> str:
    """Return an address without user, query and fragment, which may hold secrets."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return url.partition("?")[0]


def file_name(url: str) -> str:
    """Return the name of the file in an address, with plain characters only."""
    last = unquote(urlsplit(url).path).rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".")[-100:] or "download"
