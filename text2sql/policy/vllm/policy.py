"""A policy directory behind a vLLM server of its own, which stops when the policy is closed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from text2sql.errors import InfrastructureError
from text2sql.policy.base import Message, Reply, Sampling
from text2sql.policy.open import API_KEY_VARIABLE
from text2sql.policy.served.server import ServerPolicy, named_revision
from text2sql.policy.vllm.options import VllmOptions
from text2sql.policy.vllm.server import VllmServer, served_directory
from text2sql.policy.weights import directory_revision

_WATCH_SECONDS = 1.0


class ServedPolicy:
    """A directory's policy that a running VllmServer serves; ``close`` stops the server."""

    def __init__(self, server: VllmServer, revision: str) -> None:
        self.server = server
        key = os.environ.get(API_KEY_VARIABLE, "")
        self._policy = ServerPolicy(server.url, server.model, key, revision)
        self.info = self._policy.info

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Return the next assistant turn; a server that ended is reported within a second."""
        self.server.check()
        # Without the watch, a request to a server that died would be retried for minutes.
        request = asyncio.ensure_future(self._policy.complete(messages, tools, sampling))
        try:
            while not (await asyncio.wait([request], timeout=_WATCH_SECONDS))[0]:
                self.server.check()
            return request.result()
        except InfrastructureError:
            self.server.check()
            raise
        finally:
            request.cancel()

    async def close(self) -> None:
        """Close the connections, and stop the server and everything that it started."""
        try:
            await self._policy.close()
        finally:
            await asyncio.to_thread(self.server.stop)


def serve_policy(
    policy: Path | str, options: VllmOptions, *, log: Path | None = None
) -> ServedPolicy:
    """Serve a directory or a hub model until the policy is closed; see ``VllmServer.start``."""
    revision = served_revision(policy)
    server = VllmServer(policy, options, log=log)
    server.start()
    return ServedPolicy(server, revision)


def served_revision(policy: Path | str) -> str:
    """Return the revision of what would be served; that of a hub model only depends on its id."""
    directory = served_directory(policy)
    return directory_revision(directory) if directory else named_revision(str(policy))
