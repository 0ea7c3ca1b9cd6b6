"""Child programs that end with the process that started them, their output, and their names."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

GUARD = Path(__file__).with_name("guard.py")
_COLORS = re.compile(r"\x1b\[[0-9;]*m")

_MOST_LOGS = 8


def last_lines(log: Path, characters: int = 2000) -> str:
    """Return the last lines of a log file without colours, at most ``characters`` long."""
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 4 * (characters + 1)))  # a character has four bytes at most
        return end_of(without_colors(file.read().decode("utf-8", errors="replace")), characters)


def ends_below(folder: Path, lines: int = 4, characters: int = 500) -> str:
    """Return how each log below a folder ends, the latest last; empty without logs.

    Logs of one program under two names, as links make them, are shown once.
    """
    logs = {path.resolve() for path in folder.rglob("*.log") if path.is_file()}
    ends = []
    for log in sorted(logs, key=lambda path: path.stat().st_mtime)[-_MOST_LOGS:]:
        if text := "\n".join(last_lines(log, characters).splitlines()[-lines:]):
            ends.append(f"{log.relative_to(folder.resolve())}:\n{text}")
    return "\n".join(ends)


def end_of(text: str, characters: int) -> str:
    """Return the last whole lines of a text that fit, or the end of a line that alone is longer."""
    text = text.strip()
    end = text[-characters:]
    whole = end.partition("\n")[2] if len(text) > len(end) else end
    return whole or end


def without_colors(text: str) -> str:
    """Return a program's output without the escape sequences for colours."""
    return _COLORS.sub("", text)


def descendants(pid: int) -> list[psutil.Process]:
    """Return the living processes below one, none where that one is gone."""
    try:
        return [one for one in psutil.Process(pid).children(recursive=True) if is_alive(one)]
    except psutil.NoSuchProcess:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs, under the same id: a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def described(process: psutil.Process) -> str:
    """Return a process as people read it: ``python (process 42)``."""
    try:
        name = process.name()
    except psutil.Error:
        name = "unknown"
    return f"{name} (process {process.pid})"


def signal_descendants(number: int) -> list[psutil.Process]:
    """Send a signal to everything below this process; return what was alive."""
    alive = descendants(os.getpid())
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return alive


class GuardedProcess:
    """A command in its own session, under ``guard.py``; leaving the block ends all of it.

    The guard notices the death of this process by the heartbeat pipe, whose writing end only this
    process has open.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        """Start the command and append its output and errors to ``log``."""
        self.grace_seconds = grace_seconds
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        guard = [sys.executable, "-P", "-E", "-S", str(GUARD)]
        reading, writing = os.pipe()
        self._heartbeat = os.fdopen(writing, "wb")
        try:
            with log.open("ab") as output:
                self.process = subprocess.Popen(
                    [*guard, str(reading), str(grace_seconds), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment or os.environ),
                    pass_fds=(reading,),
                    start_new_session=True,
                )
        finally:
            os.close(reading)

    @property
    def pid(self) -> int:
        """The guard's process id, which is also the id of the session and its group."""
        return self.process.pid

    def wait(self, seconds: float) -> int | None:
        """Return the exit status, or None while the command still runs after ``seconds``."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """End the command and everything that it started, and wait for that."""
        self._heartbeat.close()
        if self.wait(self.grace_seconds + 5) is None or self.process.returncode < 0:
            # The guard hangs or was itself killed, and its group may still have members.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()

    def __enter__(self) -> GuardedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
