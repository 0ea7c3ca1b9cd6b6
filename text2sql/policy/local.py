"""A policy in this process: a Hugging Face model directory, on the CPU, in single precision."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow, Message, PolicyInfo, Reply, Sampling
from text2sql.policy.calls import parse_calls
from text2sql.policy.revision import directory_revision

if TYPE_CHECKING:
    from text2sql.policy.batching import Batch, Request


class LocalPolicy:
    """Continues many conversations at once with the model in ``directory``.

    ``threads`` is the number of CPU threads torch may use (of the whole process; None leaves
    torch's setting), ``max_batch`` the number of conversations whose cache is kept, ``seed``
    starts the sampling. Replies at temperature 0 do not depend on what else is in progress.
    Raises Text2SqlError where there is no such model or the extra ``local`` is not installed.
    """

    def __init__(
        self, directory: Path | str, threads: int | None = None, max_batch: int = 128, seed: int = 0
    ) -> None:
        self.directory = Path(directory)
        self._model, self._tokenizer = _load(self.directory, threads)
        self._context = getattr(self._model.config, "max_position_embeddings", None) or 1 << 30
        self._stop = _stop_tokens(self._model, self._tokenizer)
        self._worker = _Worker(self._new_batch, max_batch, seed)
        self.info = PolicyInfo(self.directory.name, directory_revision(self.directory))

    def _new_batch(self, max_batch: int, seed: int) -> Batch:
        from text2sql.policy.batching import Batch

        return Batch(self._model, self._stop, max_batch, seed)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Write the next assistant turn; see ``Policy.complete``."""
        from text2sql.policy.batching import Request

        prompt = self._encode(messages, tools)
        room = self._context - len(prompt)
        if room <= 0:
            raise ContextOverflow(
                f"the conversation has {len(prompt)} tokens, the context {self._context}"
            )
        limit = min(sampling.max_tokens, room)
        request = Request(prompt, sampling.temperature, sampling.top_p, limit)
        await self._worker.run(request)
        return self._reply(request, [tool["function"]["name"] for tool in tools])

    async def close(self) -> None:
        """Stop the worker thread; requests in progress fail."""
        await asyncio.to_thread(self._worker.close)

    def _encode(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        tokens: list[int] = self._tokenizer.apply_chat_template(
            [_with_parsed_arguments(message) for message in messages],
            tools=list(tools) or None,
            add_generation_prompt=True,
            return_dict=False,
        )
        return tokens

    def _reply(self, request: Request, names: list[str]) -> Reply:
        text = self._tokenizer.decode(request.reply, skip_special_tokens=False)
        calls, content = parse_calls(text, names)
        message: Message = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in calls
            ]
        finish = "tool_calls" if calls else "stop"
        return Reply(
            message=message,
            content=content,
            tool_calls=tuple(calls),
            finish_reason=finish if request.stopped else "length",
            truncated=not request.stopped,
            prompt_tokens=len(request.prompt),
            completion_tokens=len(request.reply) + request.stopped,
        )


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


class _Worker:
    """The thread that owns the batch: takes jobs from a queue and steps while any is unfinished."""

    def __init__(self, new_batch: Any, *arguments: Any) -> None:
        self._new_batch = new_batch
        self._arguments = arguments
        self._inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="local-policy", daemon=True)
        self._thread.start()

    async def run(self, request: Request) -> None:
        """Wait until the request is complete."""
        if self._closed:
            raise InfrastructureError("The local policy is closed; open it again.")
        loop = asyncio.get_running_loop()
        job = _Job(request, loop.create_future(), loop)
        self._inbox.put(job)
        try:
            await job.future
        finally:
            request.cancelled = True

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._inbox.put(None)
        self._thread.join()

    def _work(self) -> None:
        jobs: dict[Request, _Job] = {}
        batch = self._new_batch(*self._arguments)
        while self._take(batch, jobs):
            try:
                finished = batch.step()
            except Exception as error:  # noqa: BLE001 - handed to every waiting rollout
                failure = InfrastructureError(f"The local policy failed while generating: {error}")
                for job in jobs.values():
                    job.finish(failure)
                jobs.clear()
                batch = self._new_batch(*self._arguments)
                continue
            for request in finished:
                jobs.pop(request).finish()
            jobs = {request: job for request, job in jobs.items() if not request.cancelled}
        for job in jobs.values():
            job.finish(InfrastructureError("The local policy was closed while generating."))

    def _take(self, batch: Batch, jobs: dict[Request, _Job]) -> bool:
        """Move new jobs into the batch, waiting for one where there is nothing to do."""
        while not self._inbox.empty() or not batch.busy:
            job = self._inbox.get()
            if job is None:
                return False
            jobs[job.request] = job
            batch.add(job.request)
        return True


def _load(directory: Path, threads: int | None) -> tuple[Any, Any]:
    if not (directory / "config.json").is_file():
        raise Text2SqlError(
            f"{directory} is not a model directory: it has no config.json; "
            "give a Hugging Face directory with weights and tokenizer."
        )
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise Text2SqlError(
            f"A policy in this process needs the extra 'local' ({error.name} is missing); "
            "run pip install 'text2sql-lifecycle[local]'."
        ) from error
    if threads:
        torch.set_num_threads(threads)
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True
        )
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Text2SqlError(f"{directory} could not be loaded as a model: {reason}") from error
    _require_supported(directory, model, tokenizer)
    return model.eval(), tokenizer


def _require_supported(directory: Path, model: Any, tokenizer: Any) -> None:
    if not tokenizer.chat_template:
        raise Text2SqlError(f"{directory} has no chat template; add a chat_template.jinja.")
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        others = ", ".join(sorted(kinds - {"full_attention"}))
        raise Text2SqlError(
            f"{directory} has layers of kind {others}, which the in-process policy cannot run; "
            "serve it with vLLM and give the server's URL."
        )


def _stop_tokens(model: Any, tokenizer: Any) -> list[int]:
    declared = model.generation_config.eos_token_id
    tokens = [tokenizer.eos_token_id]
    tokens += declared if isinstance(declared, list) else [declared]
    return sorted({token for token in tokens if token is not None})


def _with_parsed_arguments(message: Message) -> Message:
    """Return the message with each call's arguments as an object, as chat templates expect."""
    if not message.get("tool_calls"):
        return message
    return message | {"tool_calls": [_parsed(call) for call in message["tool_calls"]]}


def _parsed(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {}  # a call that was cut off: templates cannot show arguments without names
    return call | {"function": function | {"arguments": arguments}}
