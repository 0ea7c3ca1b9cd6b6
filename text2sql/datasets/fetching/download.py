"""Download one file over HTTP: streamed, retried, and resumed if that is safe.

A partial file is resumed only with a known sha256 or a strong ETag, which prove that the parts
belong together; otherwise it starts over. A complete file is requested again with its ETag and
date, so that an unchanged one costs one request.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import ssl
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

import urllib3

from text2sql import __version__
from text2sql.common.files import file_digest
from text2sql.common.http import client_for
from text2sql.common.json_files import write_json
from text2sql.common.locking import Say, locked, quiet
from text2sql.errors import InfrastructureError, Text2SqlError

_CHUNK = 1 << 18
_SAY_EVERY_SECONDS = 10.0
_SAFE = "%/:=&?~#+!$,;'@()*[]"
_MOST_REDIRECTS = 10


class _Refused(Text2SqlError):
    """The server does not give the file, and retrying soon will not help."""


class _Interrupted(Exception):
    """The file did not come, or not all of it, and a retry after ``wait`` seconds may help."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True)
class Patience:
    """Attempts without a new byte, first and longest wait between them, longest silence in s."""

    tries: int = 6
    first_wait: float = 0.5
    longest_wait: float = 20.0
    silence: float = 60.0


def download(
    url: str, store: Path, sha256: str = "", say: Say = quiet, patience: Patience | None = None
) -> Path:
    """Return the file of ``url``, in a folder below ``store`` named by the address.

    With ``sha256`` the file must have it, and a file that has it is not requested again.
    Raises Text2SqlError for what no retry fixes (an address, a status such as 404, another
    checksum, a full disk) and InfrastructureError if the server fails too often.
    """
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
    folder = store / hashlib.sha256(url.encode()).hexdigest()[:16]
    try:
        with locked(folder / ".lock", say):
            return _Download(url, folder, sha256.lower(), say, patience or Patience()).run()
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{shown(url)} cannot be stored in {folder}: {reason}.") from error


class _Download:
    """One file's way into its folder: ``<name>.part`` first, then ``<name>``.

    Beside either, ``<its name>.version`` notes ETag, Last-Modified, size and, at the end, sha256.
    """

    def __init__(self, url: str, folder: Path, sha256: str, say: Say, patience: Patience) -> None:
        self.url, self.sha256, self.say, self.patience = url, sha256, say, patience
        # Only plain characters of the address make the file's name.
        name = re.sub(r"[^A-Za-z0-9._-]", "_", unquote(urlsplit(url).path).rpartition("/")[2])
        self.file = folder / (name.lstrip(".")[-100:] or "download")
        self.part = folder / f"{self.file.name}.part"

    def run(self) -> Path:
        """Download the file with retries; without a server, use the earlier copy."""
        stored = _noted(self.file).get("sha256") if self.file.is_file() else None
        if stored and self.sha256 == stored:
            return self.file
        try:
            return self._retry()
        except (InfrastructureError, _Refused) as error:
            if not stored or self.sha256:
                raise
            self.say(f"WARNING: {error} Using the copy that was downloaded before.")
            return self.file

    def _retry(self) -> Path:
        failures = most = 0
        while True:
            try:
                return self._attempt()
            except _Interrupted as error:
                failures = 1 if self._have() > most else failures + 1
                most = max(most, self._have())
                reason = f"{shown(self.url)}: {error}"
                if failures >= self.patience.tries:
                    raise InfrastructureError(
                        f"{reason}, {failures} times without a new byte; run again to resume."
                    ) from error
                wait = max(error.wait, self.patience.first_wait * 2 ** (failures - 1))
                wait = min(self.patience.longest_wait, wait)
                self.say(f"{reason}; trying again in {wait:.1f} s.")
                time.sleep(wait)

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _attempt(self) -> Path:
        """Send one request, for the missing bytes if possible; store what comes."""
        have, etag = self._have(), _noted(self.part).get("etag", "")
        headers: dict[str, str] = {}
        strong = etag and not etag.startswith("W/")
        if have and (self.sha256 or strong):
            headers["Range"] = f"bytes={have}-"
            if strong:
                headers["If-Range"] = etag
        elif self.file.is_file() and not self.sha256:
            known = _noted(self.file)
            names = {"If-None-Match": "etag", "If-Modified-Since": "modified"}
            headers = {name: known[key] for name, key in names.items() if known.get(key)}
        with closing(_ask(self.url, headers, self.patience.silence)) as response:
            return self._take(response, have)

    def _take(self, response: urllib3.BaseHTTPResponse, have: int) -> Path:
        """Act on the status of a response."""
        status, etag = response.status, response.headers.get("ETag", "")
        if status == 304:
            return self.file
        if status in (408, 425, 429) or status >= 500:
            wait = response.headers.get("Retry-After", "")
            seconds = float(wait) if wait.isdigit() else 0.0
            raise _Interrupted(f"the server answers with status {status}", seconds)
        if status == 416 and have:
            # Killed after the last byte, while the file was checked; or the length was wrong.
            if str(have) == str(_total(response)) == _noted(self.part).get("size"):
                return self._finish(resumed=True)
            raise self._start_over(f"the server has no more than {have:,} bytes")
        _require_file(response, self.url)
        first = 0
        if status == 206:
            sent = re.match(r"bytes (\d+)-\d+/", response.headers.get("Content-Range", ""))
            first = int(sent[1]) if sent else 0
            noted = _noted(self.part).get("etag", "")
            if first != have or (etag and noted and etag != noted):
                raise self._start_over("the file has changed in the meantime")
        elif etag and self.file.is_file() and etag == _noted(self.file).get("etag"):
            return self.file
        elif have:
            self.say(f"{shown(self.url)} starts over: it has changed or cannot be resumed.")
        self._receive(response, first)
        return self._finish(resumed=first > 0)

    def _start_over(self, reason: str) -> _Interrupted:
        """Discard the partial file; return the error to raise."""
        self.part.unlink(missing_ok=True)
        return _Interrupted(reason)

    def _receive(self, response: urllib3.BaseHTTPResponse, have: int) -> None:
        """Write the body after the bytes that exist; raise if it is incomplete."""
        total = _total(response)
        needed, free = total - have, shutil.disk_usage(self.part.parent).free
        if needed > free:
            raise Text2SqlError(
                f"{shown(self.url)} needs {_megabytes(needed)} MB, and only {_megabytes(free)} MB "
                f"are free in {self.part.parent}: make room and run again."
            )
        note = {"size": str(total)} | ({"etag": _noted(self.part).get("etag", "")} if have else {})
        for name, key in (("ETag", "etag"), ("Last-Modified", "modified")):
            if value := response.headers.get(name):
                note[key] = value
        write_json(_note(self.part), note)
        began = said = time.monotonic()
        first = have
        # Unbuffered, and a chunk as soon as it comes: a killed download keeps every byte.
        with open(self.part, "r+b" if have else "wb", buffering=0) as copy:
            copy.seek(have)
            copy.truncate()
            while chunk := _read(response):
                while chunk:
                    written = copy.write(chunk)
                    chunk, have = chunk[written:], have + written
                now = time.monotonic()
                if now - said >= _SAY_EVERY_SECONDS:
                    said = now
                    rate = (have - first) / (now - began)
                    state = f"{_megabytes(have)} MB, {_megabytes(rate)} MB/s"
                    if total >= 0:
                        share = f"of {_megabytes(total)} MB ({have / total:.0%})"
                        left = f", {(total - have) / rate:,.0f} s left" if rate else ""
                        state = f"{_megabytes(have)} {share}, {_megabytes(rate)} MB/s{left}"
                    self.say(f"{self.file.name}: {state}")
        if have != total >= 0:
            if have > total:
                raise self._start_over(f"{have:,} bytes came instead of {total:,}")
            raise _Interrupted(f"the connection ended after {have:,} of {total:,} bytes")
        seconds = time.monotonic() - began
        self.say(f"{self.file.name} is complete: {_megabytes(have - first)} MB in {seconds:.0f} s.")

    def _finish(self, resumed: bool) -> Path:
        """Check the complete partial file and move it to its place."""
        if not self._have():
            raise Text2SqlError(f"{shown(self.url)} is empty: check the address.")
        digest = file_digest(self.part)
        if self.sha256 and digest != self.sha256:
            if resumed:
                raise self._start_over("the parts do not make the file with this sha256")
            self.part.unlink()
            raise Text2SqlError(
                f"{shown(self.url)} has the sha256 {digest} instead of {self.sha256}: it was "
                "damaged in transit, or is another version; run again, or correct the checksum."
            )
        note = _noted(self.part) | {"sha256": digest}
        # A crash between these steps leaves a file without a note: it is downloaded again.
        _note(self.file).unlink(missing_ok=True)
        os.replace(self.part, self.file)
        write_json(_note(self.file), note)
        return self.file


def _note(file: Path) -> Path:
    return file.with_name(f"{file.name}.version")


def _noted(file: Path) -> dict[str, str]:
    """Return what was noted of a file; nothing if there is no valid note."""
    try:
        found = json.loads(_note(file).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _total(response: urllib3.BaseHTTPResponse) -> int:
    """Return the size of the whole file in bytes, -1 if the server does not say."""
    if response.status in (206, 416):
        found = re.search(r"/(\d+)$", response.headers.get("Content-Range", ""))
        return int(found[1]) if found else -1
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else -1


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        return response.read1(_CHUNK, decode_content=False)
    except urllib3.exceptions.IncompleteRead:
        return b""  # the caller compares sizes
    except urllib3.exceptions.HTTPError as error:
        raise _Interrupted(_problem_of(error)) from error


def _megabytes(count: float) -> str:
    """Return bytes in millions, with a decimal for small numbers."""
    return f"{count / 1e6:,.1f}" if count < 1e8 else f"{count / 1e6:,.0f}"


def is_url(place: str) -> bool:
    """Whether a place is an address on the web."""
    return "://" in place


def _ask(url: str, headers: Mapping[str, str], silence: float) -> urllib3.BaseHTTPResponse:
    """Send a request and return the response, whatever its status; the caller closes it.

    Redirects are followed to http and https, but never from https to http. ``silence`` is how
    many seconds may pass without a byte. Raises Text2SqlError for an invalid address and
    _Interrupted if there is no response.
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
            raise _Interrupted(_problem_of(error)) from error
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
    raise _Refused(f"{shown(url)} redirects more than {_MOST_REDIRECTS} times; check the address.")


def _problem_of(error: BaseException) -> str:
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


def _require_file(response: urllib3.BaseHTTPResponse, url: str) -> None:
    """Raise if a response refuses the file, is a web page, or is compressed in transit."""
    if response.status not in (200, 206):
        hint = {
            401: "it needs an account; download it by other means and give its path",
            403: "it is not open to everyone; download it by other means and give its path",
            404: "there is no such file; check the address",
            410: "the file was removed; look for its new address",
        }.get(response.status, "it cannot be downloaded; check the address")
        raise _Refused(f"{shown(url)} answers with status {response.status}: {hint}.")
    kind = response.headers.get("Content-Type", "").lower()
    if kind.startswith(("text/html", "application/xhtml")):
        raise Text2SqlError(
            f"{shown(url)} answers with a web page instead of a file: give the address of the "
            "file itself, or download it with a browser and give its path."
        )
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise Text2SqlError(f"{shown(url)} is sent as {encoding}; download it by other means.")


def shown(url: str) -> str:
    """Return an address without user, query and fragment, which may hold secrets."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return url.partition("?")[0]
