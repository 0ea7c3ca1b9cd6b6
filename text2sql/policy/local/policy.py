"""A policy in this process: a Hugging Face model that continues many conversations at once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text2sql.errors import Text2SqlError
from text2sql.policy.base import ContextOverflow, Message, PolicyInfo, Reply, Sampling
from text2sql.policy.calls import parse_calls
from text2sql.policy.local.loading import load_model, stop_tokens
from text2sql.policy.local.worker import BatchWorker
from text2sql.policy.places import policy_name
from text2sql.policy.revision import directory_revision
from text2sql.policy.served.replies import history_message

if TYPE_CHECKING:
    from text2sql.policy.local.batching import Batch, Request

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
        self.model = model
        self.tokenizer = tokenizer
        self.info = info
        self.stop = stop_tokens(model, tokenizer)
        self._context = getattr(model.config, "max_position_embeddings", None) or 1 << 30
        self._max_batch = max_batch
        self._random = random.Random(seed)
        self._worker = BatchWorker(self._new_batch)

    def _new_batch(self) -> Batch:
        from text2sql.policy.local.batching import Batch

        return Batch(self.model, self.stop, self._max_batch)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Write the next assistant turn; see ``Policy.complete``."""
        stream = random.Random(self._random.getrandbits(64))
        request = await self.write(self.encode(messages, tools), sampling, stream)
        return self.reply(request, tools)

    def encode(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return the tokens of a conversation, up to where the assistant's next turn begins.

        Raises Text2SqlError where the chat template cannot write it.
        """
        from jinja2 import TemplateError

        try:
            tokens: list[int] = self.tokenizer.apply_chat_template(
                [_with_parsed_arguments(message) for message in messages],
                tools=list(tools) or None,
                add_generation_prompt=True,
                return_dict=False,
            )
        except TemplateError as error:
            raise Text2SqlError(
                f"The chat template of {self.info.name} cannot write this conversation "
                f"({error}): take the template of a model that calls tools."
            ) from error
        return tokens

    async def write(self, prompt: list[int], sampling: Sampling, stream: random.Random) -> Request:
        """Continue a prompt's tokens by one turn, drawn with the numbers of ``stream``.

        Raises ContextOverflow where the prompt fills the context.
        """
        from text2sql.policy.local.batching import Request

        room = self._context - len(prompt)
        if room <= 0:
            raise ContextOverflow(
                f"the conversation has {len(prompt)} tokens, the context {self._context}"
            )
        limit = min(sampling.max_tokens, room)
        request = Request(prompt, sampling.temperature, sampling.top_p, limit, stream)
        await self._worker.run(request)
        return request

    def reply(self, request: Request, tools: Sequence[dict[str, Any]]) -> Reply:
        """Read a written turn: the calls in it, and the text around them."""
        text = self.tokenizer.decode(
            request.text_tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        calls, content = parse_calls(text, [tool["function"]["name"] for tool in tools])
        finish = "tool_calls" if calls else "stop"
        return Reply(
            message=history_message(content, calls),
            content=content,
            tool_calls=tuple(calls),
            finish_reason=finish if request.stopped else "length",
            truncated=not request.stopped,
            prompt_tokens=len(request.prompt),
            completion_tokens=len(request.reply),
        )

    async def close(self) -> None:
        """Stop the worker thread; requests in progress fail."""
        await asyncio.to_thread(self._worker.close)


class LocalPolicy(ModelPolicy):
    """The policy in a model directory, in single precision on the CPU.

    ``threads`` is the number of CPU threads torch may use in the whole process, see
    ``load_model``. Raises Text2SqlError where there is no such model or the extra ``local``
    is not installed.
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


def _with_parsed_arguments(message: Message) -> Message:
    """Return the message with each call's arguments as an object, as chat templates expect."""
    if not message.get("tool_calls"):
        return message
    return message | {"tool_calls": [_parsed(call) for call in message["tool_calls"]]}


def _parsed(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return call | {"function": function | {"arguments": json.loads(function["arguments"])}}
