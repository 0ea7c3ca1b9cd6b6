"""A policy server that costs nothing: canned replies at once, late, or with faults among them.

``python -m benchmarks.rollout_server`` serves on 127.0.0.1, prints its address, and ends when its
standard input does. What a conversation gets depends on the number in its question and on nothing
else, so that two runs have the same answers whatever happens in between.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from typing import Any

from text2sql.common.checkout import CHECKOUT

GOLD = "SELECT count(*) FROM city"
SUBMISSIONS = (GOLD, "SELECT 1 WHERE 0", "SELECT nothing FROM city", GOLD)
"""What the questions submit, by their number modulo four: right, wrong, an error, right."""

MODELS = {"data": [{"id": "bench"}]}
"""What a client finds that asks which models are served."""

_HOLD_SECONDS = 30.0
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ERROR = b'{"error": {"message": "EngineCore encountered an issue"}}'
_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


def turn_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the next turn of a conversation as a chat completion: look, look, try, submit."""
    number = int(body["messages"][1]["content"].split()[-1])
    sql = {"sql": SUBMISSIONS[number % len(SUBMISSIONS)]}
    city = {"table": "city", "limit": 3}
    turns = [("inspect_schema", {}), ("sample_rows", city), ("run_sql", sql), ("submit", sql)]
    turn = min(3, sum(message["role"] == "assistant" for message in body["messages"]))
    function = {"name": turns[turn][0], "arguments": json.dumps(turns[turn][1])}
    call = {"id": f"call_{number}_{turn}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 500, "completion_tokens": 30, "total_tokens": 530}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}


def http(content: bytes, status: int = 200, *more: str) -> bytes:
    """Return an answer as it goes over the wire."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", *more]
    if not any(line.startswith("Content-Type") for line in more):
        lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, "", ""]).encode() + content


def faulty(kind: str, good: bytes) -> tuple[bytes, bool]:
    """Return what goes over the wire instead of a good answer, and whether to hang up then."""
    whole = http(good)
    wire = {
        "error": http(_ERROR, 500),
        "unavailable": http(_HTML, 503, "Content-Type: text/html"),
        "busy": http(b"", 429, "Retry-After: 0"),
        "page": http(_HTML, 200, "Content-Type: text/html"),
        "event": http(b"data: " + _ERROR + b"\n\n", 200, "Content-Type: text/event-stream"),
        "half": http(good[: len(good) // 2]),
        "empty": http(b'{"choices": []}'),
        "bytes": http(b"\x1f\x8b" + good, 200, "Content-Encoding: gzip"),
        "noise": b"\x15\x03\x01\x00\x02\x02\x50\r\n\r\n",
        "cut": whole[:-20],
        "drop": b"",
    }
    return wire[kind], kind in ("noise", "cut", "drop")


FAULTS = (
    *("error", "unavailable", "busy", "page", "event", "half", "empty", "bytes", "noise"),
    *("cut", "drop", "stall"),
)


class Replies:
    """What the server does: replies after ``delay`` seconds, a share of them spoilt."""

    def __init__(self, delay: float = 0.0, faults: float = 0.0, seed: int = 0) -> None:
        self.delay = delay
        self.faults = faults
        self.chance = random.Random(seed)
        self.openings: Counter[str] = Counter()
        self.spoilt: Counter[str] = Counter()
        self.requests = 0

    def answer(self, content: bytes) -> tuple[bytes, bool, float]:
        """Return what to send, whether to hang up, and how long to wait before, in seconds."""
        self.requests += 1
        body = json.loads(content)
        if len(body["messages"]) == 2:
            self.openings[body["messages"][1]["content"].split()[-1]] += 1
        good = json.dumps(turn_of(body)).encode()
        if self.chance.random() >= self.faults:
            return http(good), False, self.delay
        kind = self.chance.choice(FAULTS)
        self.spoilt[kind] += 1
        if kind == "stall":
            return http(good), False, _HOLD_SECONDS
        return *faulty(kind, good), self.delay

    def seen(self) -> dict[str, Any]:
        """Return what was asked so far: ``openings`` counts first turns by question number."""
        return {
            "requests": self.requests,
            "openings": dict(self.openings),
            "faults": dict(self.spoilt),
        }


class Connection(asyncio.Protocol):
    """One client; requests come one after the other."""

    def __init__(self, replies: Replies) -> None:
        self.replies = replies
        self.unread = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the request is whole."""
        self.unread += data
        head, found, rest = self.unread.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not found or len(rest) < size:
            return
        self.unread = rest[size:]
        if head.startswith(b"GET"):
            self.send(http(json.dumps(MODELS | self.replies.seen()).encode()), False)
            return
        wire, hang_up, wait = self.replies.answer(bytes(rest[:size]))
        if wait:
            asyncio.get_running_loop().call_later(wait, self.send, wire, hang_up)
        else:
            self.send(wire, hang_up)

    def send(self, wire: bytes, hang_up: bool) -> None:
        """Send an answer, unless the client is gone."""
        if not self.transport.is_closing():
            self.transport.write(wire)
            if hang_up:
                self.transport.close()


async def serve(replies: Replies) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(replies), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


class RolloutServer:
    """The server in a process of its own; use as a context manager."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "benchmarks.rollout_server", *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
        )

    def __enter__(self) -> RolloutServer:
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def seen(self) -> dict[str, Any]:
        """Ask the server what it was asked so far."""
        with urllib.request.urlopen(f"{self.url}/seen", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--faults", type=float, default=0.0, help="share of replies to spoil")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of replies to spoil")
    given = parser.parse_args()
    asyncio.run(serve(Replies(given.delay, given.faults, given.seed)))


if __name__ == "__main__":
    main()
