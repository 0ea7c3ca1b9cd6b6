"""A policy in this process: a Hugging Face model that continues many conversations at once."""

from __future__ import annotations

import asyncio
import json
import queue
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow, Message, PolicyInfo, Reply, Sampling
from text2sql.policy.calls import parse_calls
from text2sql.policy.local.loading import load_model, stop_tokens
from text2sql.policy.places import policy_name
from text2sql.policy.served.replies import history_message
from text2sql.policy.weights import directory_revision

if TYPE_CHECKING:
    from text2sql.policy.local.batching import Batch, Turn

MAX_BATCH = 128


class ModelPolicy:
    """A loaded model and its tokenizer as a policy.

    ``max_batch`` is the number of conversations whose cache is kept; ``seed`` starts the
    sampling, None from the system's entropy. A reply does not depend on what else is in
    progress (but for float rounding).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        info: PolicyInfo,
        max_batch: int = MAX_BATCH,
        seed: int | None = None,
    ) -> None:
        from text2sql.policy.local.batching import Batch  # imports torch

        self.model = model
        self.tokenizer = tokenizer
        self.info = info
        self.stop = stop_tokens(model, tokenizer)
        self._context = getattr(model.config, "max_position_embeddings", None) or 1 << 30
        self._random = random.Random(seed)
        self._worker = _BatchWorker(partial(Batch, model, self.stop, max_batch))

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Write the next assistant turn; see ``Policy.complete``."""
        stream = random.Random(self._random.getrandbits(64))
        turn = await self.write(self.encode(messages, tools), sampling, stream)
        return self.reply(turn, tools)

    def encode(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return tokens up to the assistant's turn; raises Text2SqlError if a template fails."""
        from jinja2 import TemplateError

        try:
            tokens: list[int] = self.tokenizer.apply_chat_template(
                [_with_parsed_arguments(message) for message in messages],  # as templates expect
                tools=list(tools) or None,
                add_generation_prompt=True,
                return_dict=False,
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise Text2SqlError(
                f"The chat template of {self.info.name} cannot write this conversation "
                f"({error}): use the template of a model that calls tools."
            ) from error
        return tokens

    async def write(self, prompt: list[int], sampling: Sampling, stream: random.Random) -> Turn:
        """Continue a prompt by one turn; raises ContextOverflow if it fills the context."""
        from text2sql.policy.local.batching import Turn

        room = self._context - len(prompt)
        if room <= 0:
            raise ContextOverflow(
                f"the conversation has {len(prompt)} tokens, the context {self._context}"
            )
        limit = min(sampling.max_tokens, room)
        turn = Turn(prompt, sampling.temperature, sampling.top_p, limit, stream)
        await self._worker.run(turn)
        return turn

    def reply(self, turn: Turn, tools: Sequence[dict[str, Any]]) -> Reply:
        """Read a written turn: the calls in it, and the text around them."""
        text = self.tokenizer.decode(
            turn.text_tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        calls, content = parse_calls(text, [tool["function"]["name"] for tool in tools])
        return Reply(
            message=history_message(content, calls),
            content=content,
            tool_calls=tuple(calls),
            finish_reason=("tool_calls" if calls else "stop") if turn.stopped else "length",
            truncated=not turn.stopped,
            prompt_tokens=len(turn.prompt),
            completion_tokens=len(turn.reply),
        )

    async def close(self) -> None:
        """Stop the worker thread; turns in progress fail."""
        await asyncio.to_thread(self._worker.close)


class LocalPolicy(ModelPolicy):
    """The policy in a model directory, in single precision on the CPU.

    ``threads`` and the errors are those of ``load_model``.
    """

    def __init__(
        self,
        directory: Path | str,
        threads: int | None = None,
        max_batch: int = MAX_BATCH,
        seed: int | None = None,
    ) -> None:
        self.directory = Path(directory)
        model, tokenizer = load_model(self.directory, threads)
        info = PolicyInfo(policy_name(self.directory), directory_revision(self.directory))
        super().__init__(model, tokenizer, info, max_batch, seed)


class _BatchWorker:
    """A thread that owns a batch: it takes turns from a queue and steps until all are complete."""

    def __init__(self, new_batch: Callable[[], Batch]) -> None:
        self._new_batch = new_batch
        self._inbox: queue.SimpleQueue[tuple[Turn, Future[None]] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    async def run(self, turn: Turn) -> None:
        """Wait until a turn is complete; raises InfrastructureError. Cancelling drops the turn."""
        if self._closed:
            raise InfrastructureError("The policy is closed; open it again.")
        future: Future[None] = Future()
        self._inbox.put((turn, future))
        try:
            await asyncio.wrap_future(future)
        finally:
            turn.cancelled = True

    def close(self) -> None:
        """End the thread; turns in progress fail."""
        self._closed = True
        self._inbox.put(None)
        self._thread.join()

    def _work(self) -> None:
        jobs: dict[Turn, Future[None]] = {}
        batch = self._new_batch()
        while self._take(batch, jobs):
            try:
                finished = batch.step()
            except Exception as error:  # noqa: BLE001 - handed to every rollout that waits
                self._fail(jobs, f"The policy failed while generating: {error}")
                batch = self._new_batch()  # the cache may be in any state after a failure
                continue
            for turn in finished:
                jobs.pop(turn).set_result(None)
            for turn in [turn for turn in jobs if turn.cancelled]:
                del jobs[turn]
        self._fail(jobs, "The policy was closed while generating.")

    def _fail(self, jobs: dict[Turn, Future[None]], reason: str) -> None:
        for future in jobs.values():
            future.set_exception(InfrastructureError(reason))
        jobs.clear()

    def _take(self, batch: Batch, jobs: dict[Turn, Future[None]]) -> bool:
        """Move new turns into the batch; wait for one if there is nothing to do."""
        while not self._inbox.empty() or not batch.busy:
            job = self._inbox.get()
            if job is None:
                return False
            turn, future = job
            if future.set_running_or_notify_cancel():  # else its caller was cancelled
                jobs[turn] = future
                batch.add(turn)
        return True


def _with_parsed_arguments(message: Message) -> Message:
    """Return the message with each call's arguments as an object."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        calls.append(call | {"function": call["function"] | {"arguments": arguments}})
    return message | {"tool_calls": calls}
