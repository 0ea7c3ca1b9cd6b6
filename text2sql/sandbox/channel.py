"""Messages between the sandbox and one of its workers, over a socket.

Messages are plain values in ``marshal`` form: reading one can never run code, whatever a
worker that met hostile SQL sends.
"""

from __future__ import annotations

import marshal
import socket
from time import monotonic
from typing import Any

READY = "ready"
"""A worker's first message: it takes jobs now."""

UNUSABLE = "unusable"
"""The first field of a reply that says why a database cannot be read at all."""

_HEADER = 8
_CHUNK = 1 << 16


class Channel:
    """One end of the connection; not for use by two threads at once."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, message: Any) -> None:
        """Send one message; raises OSError when the other end is gone."""
        data = marshal.dumps(message)
        self._socket.settimeout(None)
        self._socket.sendall(len(data).to_bytes(_HEADER, "little") + data)

    def receive(self, deadline: float | None = None) -> Any:
        """Return the next message.

        ``deadline`` is on the monotonic clock. Raises TimeoutError when it passes, EOFError
        or OSError when the other end is gone.
        """
        data = bytearray(self._read(_CHUNK, deadline))
        while len(data) < _HEADER:
            data += self._read(_CHUNK, deadline)
        total = _HEADER + int.from_bytes(data[:_HEADER], "little")
        while len(data) < total:
            data += self._read(total - len(data), deadline)
        return marshal.loads(memoryview(data)[_HEADER:])

    def close(self) -> None:
        """Close this end; the other end then reads EOFError."""
        self._socket.close()

    def _read(self, size: int, deadline: float | None) -> bytes:
        if deadline is None:
            self._socket.settimeout(None)
        else:
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
        data = self._socket.recv(min(size, 1 << 20))
        if not data:
            raise EOFError
        return data
