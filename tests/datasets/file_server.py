"""A real HTTP server that offers one file, and misbehaves on demand."""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """How the server answers; changed by tests between requests.

    ``breaks`` has, for the next requests, after how many bytes of the body the connection is
    cut. ``statuses`` are given before anything else. ``announced`` is added to Content-Length,
    ``shift`` to the first byte of a range; ``drops`` requests are not answered at all.
    """

    content: bytes = b""
    etag: str = '"one"'
    modified: str = ""
    ranges: bool = True
    conditions: bool = True
    length: bool = True
    chunked: bool = False
    announced: int = 0
    kind: str = "application/zip"
    encoding: str = ""
    breaks: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    location: str = ""
    silent: float = 0.0
    drops: int = 0
    shift: int = 0


class FileServer:
    """Serves on 127.0.0.1 until closed; ``requests`` has the headers that it was sent."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.now = behaviour
        self.requests: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the file."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/data/dev.zip"

    def __enter__(self) -> FileServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(owner: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now = owner.now
            owner.requests.append({name.title(): value for name, value in self.headers.items()})
            if now.drops:
                now.drops -= 1
                self.connection.shutdown(socket.SHUT_RDWR)
            elif now.statuses:
                self._empty(now.statuses.pop(0), now.extra)
            elif now.location and "moved" not in self.path:
                self._empty(302, {"Location": now.location})
            elif now.conditions and self._is_unchanged(now):
                self._empty(304, {})
            else:
                self._send(now)

        def _is_unchanged(self, now: Behaviour) -> bool:
            if tag := self.headers.get("If-None-Match"):
                return tag == now.etag
            return bool(now.modified) and self.headers.get("If-Modified-Since") == now.modified

        def _empty(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def _first_byte(self, now: Behaviour) -> int:
            found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
            proof = self.headers.get("If-Range")
            same = not now.conditions or proof is None or proof in (now.etag, now.modified)
            return int(found[1]) if found and now.ranges and same else -1

        def _send(self, now: Behaviour) -> None:
            first, size = self._first_byte(now), len(now.content)
            first += now.shift if first >= 0 else 0
            if first >= size:
                self._empty(416, {"Content-Range": f"bytes */{size}"})
                return
            self.send_response(206 if first >= 0 else 200)
            body = now.content[max(first, 0) :]
            if first >= 0:
                self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
            names = {"ETag": now.etag, "Last-Modified": now.modified, "Content-Type": now.kind}
            names |= {"Content-Encoding": now.encoding, **now.extra}
            names["Transfer-Encoding"] = "chunked" if now.chunked else ""
            if now.length and not now.chunked:
                names["Content-Length"] = str(len(body) + now.announced)
            for name, value in names.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self._body(body, now)

        def _body(self, body: bytes, now: Behaviour) -> None:
            end = now.breaks.pop(0) if now.breaks else len(body)
            part = body[:end]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if now.chunked else part)
            time.sleep(now.silent)
            if end < len(body):
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
            elif now.chunked:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    return Handler
