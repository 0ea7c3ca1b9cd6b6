"""Rollout records on disk: one JSON line each, appended and synced as each finishes."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from text2sql.common.files import settle
from text2sql.common.locking import take_lock
from text2sql.errors import Text2SqlError
from text2sql.judge.voting import Submission
from text2sql.policy.base import Message
from text2sql.sandbox import Status

INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout, judged.

    ``sql`` is the submitted query as it was run, ``submitted`` the text as the model wrote it;
    both are None without a submission. ``verdict`` is the judge's, empty without gold to judge by;
    ``status`` and ``row_count`` are those of the submission's result, ``digest`` is what was kept
    of it (``QueryResult.near``). ``reward`` is None where the rollout says nothing: no gold, or a
    failure of the infrastructure.
    ``write_attempts`` counts writes in run_sql and in the submission. ``seconds`` is wall clock;
    the token counts are sums over the turns.
    """

    key: str
    sample: int
    policy: str
    policy_revision: str
    prompt_revision: str
    mode: str
    sampling: dict[str, Any]
    messages: list[Message]
    calls: list[dict[str, Any]]
    sql: str | None
    status: str
    verdict: str
    digest: str
    row_count: int
    reward: float | None
    write_attempts: int
    turns: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    stop_reason: str
    error: str = ""
    run_id: str = ""
    submitted: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the rollout says something about the policy."""
        return self.verdict != INFRASTRUCTURE and self.stop_reason != INFRASTRUCTURE

    @property
    def drawn_as(self) -> tuple[str, str, str]:
        """What the rollout depends on besides its question: policy, prompts, sampling."""
        return drawn_as(self.policy_revision, self.prompt_revision, self.sampling)

    @property
    def submission(self) -> Submission:
        """The rollout's part in a vote: valid if it ran as a read and never tried to write."""
        ran = self.valid and self.status == Status.OK and not self.write_attempts
        return Submission(self.sample, self.sql or "", self.digest, self.row_count, valid=ran)

    def to_dict(self) -> dict[str, Any]:
        """Return the rollout as plain JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def drawn_as(
    policy_revision: str, prompt_revision: str, sampling: dict[str, Any]
) -> tuple[str, str, str]:
    """Return a hashable name of what rollouts must share to be comparable."""
    return policy_revision, prompt_revision, sys.intern(json.dumps(sampling, sort_keys=True))


class RolloutStore:
    """An append-only file of rollouts; every appended one survives a crash.

    One process at a time may append; any may read. A line that a crash cut off is dropped.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file: int | None = None
        self._lock = threading.Lock()

    def scan(self, transcripts: bool = False) -> Iterator[Rollout]:
        """Yield the rollouts one by one as they were written; of a retried one the last counts.

        Without ``transcripts`` messages and calls are left empty: some 1 KB a rollout.
        """
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n"):
                    yield _parse(line, f"{self.path}, line {number}", transcripts)

    def append(self, rollout: Rollout) -> None:
        """Write one rollout and wait until it is on the disk; raises Text2SqlError if it cannot."""
        line = (json.dumps(rollout.to_dict()) + "\n").encode()
        with self._lock:
            if self._file is None:
                self._file = _open_alone(self.path)
            file = self._file
            before = os.lseek(file, 0, os.SEEK_END)
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(file, view) :]
                os.fsync(file)
            except OSError as error:
                os.ftruncate(file, before)  # half a line would swallow the next one
                raise Text2SqlError(
                    f"A rollout cannot be written to {self.path}: {error.strerror}; earlier ones "
                    "are safe, and the next run asks only for what is missing."
                ) from error

    def close(self) -> None:
        """Let other processes append."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None


_NUMBERS = attrgetter(
    *("sample", "row_count", "write_attempts", "turns", "prompt_tokens", "completion_tokens"),
    "seconds",
)
_SHARED = ("policy", "policy_revision", "prompt_revision", "mode", "run_id")


def _parse(line: bytes, place: str, transcripts: bool) -> Rollout:
    try:
        row = json.loads(line)
        if not transcripts:
            row |= {"messages": [], "calls": []}
            row |= {name: sys.intern(row[name]) for name in _SHARED if name in row}
        rollout = Rollout(**row)
        sum(_NUMBERS(rollout), rollout.reward or 0.0)  # else a text among them surfaces far away
        return rollout
    except (ValueError, TypeError) as error:
        raise Text2SqlError(f"{place} is not a rollout ({error}); move the file away.") from error


def _open_alone(path: Path) -> int:
    """Open for appending, refuse a second writer, and drop an incomplete last line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Text2SqlError(f"{path} cannot be opened: {error.strerror}.") from error
    try:
        take_lock(file, path, wait=False)
    except BaseException as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            raise Text2SqlError(f"Another process is writing rollouts to {path}.") from error
        raise
    end, newline = os.fstat(file).st_size, -1
    while end and newline < 0:  # backwards in blocks until one has the end of a line
        start = max(0, end - (1 << 16))
        newline = os.pread(file, end - start, start).rfind(b"\n")
        end = start if newline < 0 else start + newline + 1
    os.ftruncate(file, end)
    if new:
        settle(path.parent)
    return file
