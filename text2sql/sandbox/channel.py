"""Messages between the sandbox and one of its workers, and the state that they share.

Messages are built-in values in ``marshal`` form: reading one never runs code, whatever a worker
that hostile SQL took over sends.
"""

from __future__ import annotations

import fcntl
import marshal
import mmap
import os
import socket
import struct
import sys
import tempfile
from time import monotonic
from typing import Any

READY = "ready"
"""The first field of a worker's first message. The second says whether the kernel, too, keeps it
from changing files."""

UNUSABLE = "unusable"
"""The first field of a reply for a database that cannot be read at all; the second says why."""

OPENING, RUNNING, WRITING = range(3)
"""The stages of a text: its database is opened, it runs, or a statement in it that would write is
compiled."""

_HEADER = 8
_CHUNK = 1 << 16


def above_standard(descriptor: int) -> int:
    """Move a descriptor out of the numbers of standard input, output and error."""
    # A daemon that closed its own gets those numbers for whatever it opens next.
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


class Channel:
    """One end of the connection; not for use by two threads at once."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._unread = bytearray()

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Send one message.

        Raises OSError when the other end is gone, or does not read it before the deadline.
        """
        data = marshal.dumps(message)
        self._wait_until(deadline)
        self._socket.sendall(len(data).to_bytes(_HEADER, "little") + data)

    def receive(self, deadline: float | None = None) -> Any:
        """Return the next message.

        ``deadline`` is on the monotonic clock. Raises TimeoutError when it passes, after which
        the message may still be received, EOFError or OSError when the other end is gone.
        """
        self._read_up_to(_HEADER, deadline)
        total = _HEADER + int.from_bytes(self._unread[:_HEADER], "little")
        self._read_up_to(total, deadline)
        data, self._unread = self._unread, self._unread[total:]
        return marshal.loads(memoryview(data)[_HEADER:total])

    def close(self) -> None:
        """Close this end; the other end then reads EOFError."""
        self._socket.close()

    def _read_up_to(self, size: int, deadline: float | None) -> None:
        while (missing := size - len(self._unread)) > 0:
            self._wait_until(deadline)
            data = self._socket.recv(min(max(_CHUNK, missing), 1 << 20))
            if not data:
                raise EOFError
            self._unread += data

    def _wait_until(self, deadline: float | None) -> None:
        # Never zero: what has arrived is read, however late this process gets to run.
        self._socket.settimeout(None if deadline is None else max(deadline - monotonic(), 0.001))


class WorkerState:
    """Which text a worker is running, since when, and at what stage, in shared memory.

    The parent reads it at any time, without a message for every query.
    """

    _FORM = struct.Struct("<qdB")

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, self._FORM.size)

    @staticmethod
    def new_file() -> int:
        """Return the descriptor of a new file without a name for the shared page."""
        if sys.platform == "linux":  # in memory: the folder for temporary files may be full
            descriptor = above_standard(os.memfd_create("text2sql"))
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = above_standard(os.dup(file.fileno()))
        try:
            os.write(descriptor, WorkerState._FORM.pack(-1, 0.0, OPENING))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def start(self, number: int) -> None:
        """Note that the text with this number starts now, with opening its database."""
        self._page[:] = self._FORM.pack(number, monotonic(), OPENING)

    def note(self, stage: int) -> None:
        """Note that a stage begins."""
        self._page[-1] = stage

    def read(self) -> tuple[int, float, int]:
        """Return the number of the last started text, its start (monotonic clock) and its stage.

        The number is -1 before the first text, and once the page is closed.
        """
        try:
            seen = self._page[:]
            # The worker may be writing: only what is read twice alike is whole.
            while (again := self._page[:]) != seen:
                seen = again
        except ValueError:
            return -1, 0.0, OPENING
        number, since, stage = self._FORM.unpack(seen)
        return number, since, stage

    def close(self) -> None:
        """Release the page and the descriptor that Python keeps for it."""
        self._page.close()
