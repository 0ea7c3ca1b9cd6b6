"""Download one file over HTTP: streamed, resumed after a break, and never of two versions.

A file that broke off is continued only where the server proves, by ETag or Last-Modified, that
it is still the same one, or where its sha256 is known. A file that is complete is asked for
again with these, so that an unchanged one costs a request.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from text2sql.common.files import file_digest
from text2sql.common.locking import Say, locked, quiet
from text2sql.datasets.fetching.http_answers import (
    Answer,
    Refused,
    ask,
    fault_of,
    file_name,
    refusal,
    refuse_kind,
    require_address,
    shown,
)
from text2sql.datasets.fetching.remote_version import (
    RemoteVersion,
    forget_version,
    read_version,
    version_of,
    write_version,
)
from text2sql.datasets.fetching.transfer_log import TransferLog, megabytes
from text2sql.errors import InfrastructureError, Text2SqlError

_PIECE = 1 << 18


@dataclass(frozen=True)
class Patience:
    """How long to insist: tries without a new byte, the first wait, the longest silence in s."""

    tries: int = 6
    first_wait: float = 0.5
    longest_wait: float = 20.0
    silence: float = 60.0

    def wait(self, failures: int, asked: float) -> float:
        """Return the wait after so many failures; what the server asked for counts, bounded."""
        return min(self.longest_wait, max(asked, self.first_wait * 2 ** (failures - 1)))


class _Broken(Exception):
    """The transfer ended early, or the server has a passing fault; ``wait`` is what it asks."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def download(
    url: str, store: Path, sha256: str = "", say: Say = quiet, patience: Patience | None = None
) -> Path:
    """Return the file of ``url`` in a folder below ``store`` that is named by the address.

    With ``sha256`` the file must have it, and one that has it is not asked for again.
    Raises Text2SqlError for what no retry mends (an address, a status such as 404, another
    checksum, a full disk) and InfrastructureError when the server fails too often.
    """
    require_address(url)
    folder = store / hashlib.sha256(url.encode()).hexdigest()[:16]
    try:
        with locked(folder / ".lock", say):
            return _Download(url, folder, sha256.lower(), say, patience or Patience()).run()
    except OSError as error:
        raise _unkept(url, folder, error) from error


class _Download:
    """One file's way into its folder: ``<name>.part`` first, then ``<name>``."""

    def __init__(self, url: str, folder: Path, sha256: str, say: Say, patience: Patience) -> None:
        self.url, self.sha256, self.say, self.patience = url, sha256, say, patience
        self.file = folder / file_name(url)
        self.part = folder / f"{self.file.name}.part"
        self.resumed = False

    def run(self) -> Path:
        """Bring the file, with retries; a copy serves where the server cannot be asked."""
        there = self.file.is_file() and read_version(self.file).sha256
        if there and self.sha256 == there:
            return self.file
        try:
            return self._insist()
        except (InfrastructureError, Refused) as error:
            if not there or self.sha256:
                raise
            self.say(f"WARNING: {error} The copy that was downloaded before is used.")
            return self.file

    def _insist(self) -> Path:
        failures = most = 0
        while True:
            try:
                return self._attempt()
            except _Broken as broken:
                failures = 1 if self._have() > most else failures + 1
                most = max(most, self._have())
                reason = f"{shown(self.url)}: {broken}"
                if failures >= self.patience.tries:
                    raise InfrastructureError(
                        f"{reason}, {failures} times without a new byte; run again to go on."
                    ) from broken
                wait = self.patience.wait(failures, broken.wait)
                self.say(f"{reason}; trying again in {wait:.1f} s.")
                time.sleep(wait)

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _attempt(self) -> Path:
        """Ask once, for what is missing; receive it and put it into its place."""
        have = self._have()
        try:
            answer = ask(self.url, self._conditions(have), self.patience.silence)
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(fault_of(error)) from error
        with closing(answer.body):
            return self._take(answer, have)

    def _conditions(self, have: int) -> dict[str, str]:
        """Ask for the rest of a part that can be continued, or for a file only if it changed."""
        if have:
            proof = read_version(self.part).proof
            if proof or self.sha256:
                return {"Range": f"bytes={have}-"} | ({"If-Range": proof} if proof else {})
        elif self.file.is_file() and not self.sha256:
            known = read_version(self.file)
            names = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
            return {name: value for name, value in names.items() if value}
        return {}

    def _take(self, answer: Answer, have: int) -> Path:
        """Do what the status says."""
        version = version_of(answer)
        if answer.status == 304:
            return self.file
        if answer.passing:
            raise _Broken(f"the server answers with status {answer.status}", answer.wait)
        if answer.status == 416 and have:
            return self._end(version, have)
        if answer.status not in (200, 206):
            raise refusal(answer.status, self.url)
        refuse_kind(answer, self.url)
        if answer.status == 206:
            self._require_same(version, answer.start, have)
            version = version.or_else(read_version(self.part))
        elif self.file.is_file() and read_version(self.file).is_surely(version):
            return self.file
        elif have:
            self.say(f"{shown(self.url)} begins anew: it has changed or cannot be continued.")
        self._receive(answer, version)
        return self._end(version, self._have())

    def _require_same(self, version: RemoteVersion, start: int, have: int) -> None:
        """Throw away what is there where the rest does not belong to it."""
        if start != have or read_version(self.part).contradicts(version):
            raise self._without_part("the file has changed meanwhile")

    def _without_part(self, reason: str) -> _Broken:
        """Throw away what came, so that the next attempt begins anew; return the error to raise."""
        self.part.unlink(missing_ok=True)
        self.resumed = False
        return _Broken(reason)

    def _receive(self, answer: Answer, version: RemoteVersion) -> None:
        """Write the body behind what is there; raise where it is not all that was announced."""
        have = answer.start
        self.resumed = have > 0
        self._require_space(version.size - have)
        write_version(self.part, version)
        log = TransferLog(self.file.name, have, version.size, self.say)
        with open(self.part, "r+b" if have else "wb", buffering=0) as copy:
            copy.seek(have)
            copy.truncate()
            while piece := _read(answer):
                while piece:
                    written = copy.write(piece)
                    piece, have = piece[written:], have + written
                log.note(have)
        if have < version.size:
            raise _Broken(f"the connection ended after {have:,} of {version.size:,} bytes")
        log.end(have)

    def _require_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.part.parent).free
        if needed > free:
            raise Text2SqlError(
                f"{shown(self.url)} needs {megabytes(needed)} MB, and only {megabytes(free)} MB "
                f"are free in {self.part.parent}: make room and run again."
            )

    def _end(self, version: RemoteVersion, have: int) -> Path:
        """Check the complete part and move it to its place."""
        known = read_version(self.part)
        size = version.or_else(known).size
        if known.contradicts(version) or (size >= 0 and have != size):
            raise self._without_part(f"{have:,} bytes came, and another number was announced")
        if not have:
            raise Text2SqlError(f"{shown(self.url)} is empty: check the address.")
        digest = file_digest(self.part)
        if self.sha256 and digest != self.sha256:
            if self.resumed:
                raise self._without_part("the parts do not make the file of this sha256")
            self.part.unlink()
            raise Text2SqlError(
                f"{shown(self.url)} has the sha256 {digest} instead of {self.sha256}: it was "
                "damaged on its way, or is another version; run again, or correct the checksum."
            )
        forget_version(self.file)
        os.replace(self.part, self.file)
        write_version(self.file, replace(known, sha256=digest))
        return self.file


def _unkept(url: str, folder: Path, error: OSError) -> Text2SqlError:
    reason = error.strerror or error
    return Text2SqlError(f"{shown(url)} cannot be kept in {folder}: {reason}.")


def _read(answer: Answer) -> bytes:
    try:
        return answer.body.read1(_PIECE)
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(fault_of(error)) from error
