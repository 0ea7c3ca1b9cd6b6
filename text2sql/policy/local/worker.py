"""The thread that runs a batch for coroutines of any event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from text2sql.errors import InfrastructureError

if TYPE_CHECKING:
    from text2sql.policy.local.batching import Batch, Request


@dataclass(eq=False)
class _Job:
    request: Request
    future: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop

    def finish(self, error: Exception | None = None) -> None:
        """Wake the coroutine that waits; its loop may be gone by now."""
        try:
            self.loop.call_soon_threadsafe(self._resolve, error)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def _resolve(self, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class BatchWorker:
    """Owns a batch: takes requests from a queue and steps while any is unfinished."""

    def __init__(self, new_batch: Callable[[], Batch]) -> None:
        self._new_batch = new_batch
        self._inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    async def run(self, request: Request) -> None:
        """Wait until the request is complete; it is dropped when the caller is cancelled.

        Raises InfrastructureError where generating fails or the worker is closed.
        """
        if self._closed:
            raise InfrastructureError("The policy is closed; open it again.")
        loop = asyncio.get_running_loop()
        job = _Job(request, loop.create_future(), loop)
        self._inbox.put(job)
        try:
            await job.future
        finally:
            request.cancelled = True

    def close(self) -> None:
        """End the thread; requests in progress fail."""
        self._closed = True
        self._inbox.put(None)
        self._thread.join()

    def _work(self) -> None:
        jobs: dict[Request, _Job] = {}
        batch = self._new_batch()
        while self._take(batch, jobs):
            try:
                finished = batch.step()
            except Exception as error:  # noqa: BLE001 - handed to every rollout that waits
                self._fail(jobs, f"The policy failed while generating: {error}")
                batch = self._new_batch()
                continue
            for request in finished:
                jobs.pop(request).finish()
            for request in [request for request in jobs if request.cancelled]:
                del jobs[request]
        self._fail(jobs, "The policy was closed while generating.")

    def _fail(self, jobs: dict[Request, _Job], reason: str) -> None:
        for job in jobs.values():
            job.finish(InfrastructureError(reason))
        jobs.clear()

    def _take(self, batch: Batch, jobs: dict[Request, _Job]) -> bool:
        """Move new requests into the batch, waiting for one where there is nothing to do."""
        while not self._inbox.empty() or not batch.busy:
            job = self._inbox.get()
            if job is None:
                return False
            jobs[job.request] = job
            batch.add(job.request)
        return True
