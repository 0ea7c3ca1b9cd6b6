"""A real OpenAI-compatible HTTP server that replays a script: replies, errors, drops, stalls."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Step:
    """What one request gets.

    ``drop`` closes the connection without an answer, ``raw`` sends these bytes instead of an
    answer and closes it, after ``hold`` seconds; ``wait`` seconds pass first, ``drip`` seconds
    after each byte of the body; with ``meet`` the answer waits until as many requests as the
    barrier asks for are there.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    raw: bytes | None = None
    wait: float = 0.0
    drip: float = 0.0
    hold: float = 0.0
    meet: threading.Barrier | None = None


Script = Callable[[dict[str, Any]], Step] | Iterable[Step]


def completion(
    message: dict[str, Any], finish: str = "stop", prompt: int = 10, used: int = 20
) -> Step:
    """A chat completion with this message."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": prompt, "completion_tokens": used, "total_tokens": prompt + used}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted"}
    return replay({**head, "choices": [choice], "usage": usage})


def says(content: str | None, **extra: Any) -> Step:
    """A reply without a call."""
    return completion({"content": content, **extra})


def calls(*wanted: tuple[str, Any], **extra: Any) -> Step:
    """A reply that calls tools: pairs of name and arguments."""
    entries = [
        {
            "id": f"c{index}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for index, (name, arguments) in enumerate(wanted)
    ]
    return completion({"content": None, "tool_calls": entries, **extra}, "tool_calls")


def submits(sql: str) -> Step:
    """A reply that submits."""
    return calls(("submit", {"sql": sql}))


def fails(status: int, message: str = "no", **headers: str) -> Step:
    """An error answer; ``retry_after="2"`` becomes the header Retry-After."""
    names = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Step(json.dumps({"error": {"message": message}}).encode(), status, names)


def replay(answer: Any, status: int = 200) -> Step:
    """This JSON."""
    return Step(json.dumps(answer).encode(), status)


def asked_in(body: Mapping[str, Any]) -> str:
    """Return the question that a request to an agent's policy is about."""
    text: str = next(m["content"] for m in body["messages"] if m["role"] == "user")
    return text.rpartition("\n\nQuestion: ")[2].partition("\n\nEvidence")[0]


def replies_with(sql: str, body: Mapping[str, Any]) -> Step:
    """Submit a query, or say it in a code block where the request offers no tools."""
    return submits(sql) if body.get("tools") else says(f"```sql\n{sql}\n```")


class ScriptedServer:
    """Serves on 127.0.0.1 until closed; ``requests`` has the bodies it was sent, in order, and
    ``peak`` the most requests that it held at once.

    A script that is a list is replayed once; a function is asked for every request. Without a
    ``port`` it gets a free one; without ``roots`` it does not say which weights its models have.
    ``at`` is the only path of its chat completions, with the query: other paths are 404, and so is
    the list of no ``models``.
    """

    def __init__(
        self,
        script: Script,
        models: Iterable[str] = ("scripted",),
        port: int = 0,
        roots: bool = True,
        at: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.models = list(models)
        self.roots = roots
        self.at = at
        self.paths: list[str] = []
        self.active = self.peak = 0
        self._lock = threading.Lock()
        self._script = script if callable(script) else iter(list(script))
        self._server = _Server(("127.0.0.1", port), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"{self.origin}/v1"

    @property
    def origin(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, change: int) -> None:
        """Note that a request came or is about to be answered."""
        with self._lock:
            self.active += change
            self.peak = max(self.peak, self.active)

    def next_step(self, body: dict[str, Any], headers: dict[str, str]) -> Step:
        """Note a request and return what it gets."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            if callable(self._script):
                return self._script(body)
            return next(self._script, fails(418, "the script is over"))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients here hang up on purpose."""


def _handler(owner: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            owner.paths.append(self.path)
            models = owner.at.replace("/chat/completions", "/models")
            if owner.at and (self.path != models or not owner.models):
                self._send(fails(404, "Not Found"))
                return
            data = [
                {"id": name, "object": "model"} | ({"root": f"/m/{name}"} if owner.roots else {})
                for name in owner.models
            ]
            self._send(replay({"object": "list", "data": data}))

        def do_POST(self) -> None:
            owner.paths.append(self.path)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if owner.at and self.path != owner.at:
                self._send(fails(404, "Not Found"))
                return
            owner.count(1)
            step = owner.next_step(body, dict(self.headers))
            time.sleep(step.wait)
            if step.meet is not None:
                step.meet.wait()
            owner.count(-1)
            if step.drop or step.raw is not None:
                self.connection.sendall(step.raw or b"")
                time.sleep(step.hold)
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self._send(step)

        def _send(self, step: Step) -> None:
            self.send_response(step.status)
            for name, value in {"Content-Type": "application/json", **step.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(step.body)))
            self.end_headers()
            for part in [bytes([byte]) for byte in step.body] if step.drip else [step.body]:
                self.wfile.write(part)
                time.sleep(step.drip)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    return Handler
