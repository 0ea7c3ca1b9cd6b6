"""One rollout: the chat loop between a policy and the tools, the only one there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from text2sql.agent.prompts import LAST_TURN, NUDGE, opening_messages, schema_budget, sql_in
from text2sql.agent.schema.tables import describe
from text2sql.agent.schema.text import render_full
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tool_calls import TOOL_SCHEMAS, Mistake, checked
from text2sql.agent.tools import ToolRecord, Tools
from text2sql.errors import InfrastructureError
from text2sql.policy.base import ContextOverflow, Message, Policy, Reply, Sampling
from text2sql.questions import Question
from text2sql.sandbox import Sandbox

StopReason = Literal[
    "submit", "no_action", "turn_limit", "truncated", "context_exceeded", "infrastructure"
]
OnMessage = Callable[[Message], None]
"""Called with each message of a rollout as it joins the conversation, the opening ones first.

A reply's calls have their arguments as the model wrote them, even broken ones.
"""

_COMPACTED_CHARS = 300


@dataclass(frozen=True)
class Episode:
    """What happened in one rollout.

    ``sql`` is the submitted query without fences and the like, ``submitted`` the text as the model
    wrote it; both are None without a submission. ``prompt_tokens`` and ``completion_tokens`` are
    sums over the turns as the policy reported them; ``seconds`` is wall clock. ``stop_reason``
    infrastructure means the rollout is invalid; ``error`` says why, and for context_exceeded what
    was too long.
    """

    messages: list[Message]
    tool_log: list[ToolRecord] = field(default_factory=list)
    sql: str | None = None
    stop_reason: StopReason = "no_action"
    write_attempts: int = 0
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str = ""
    submitted: str | None = None


async def run_episode(
    question: Question,
    policy: Policy,
    sandbox: Sandbox,
    settings: AgentSettings,
    sampling: Sampling,
    on_message: OnMessage | None = None,
) -> Episode:
    """Let a policy answer one question; ``on_message`` follows the conversation.

    A policy or sandbox that fails ends the rollout as ``infrastructure``. Raises Text2SqlError
    for what the user must fix first: no such database, a refused key.
    """
    started = time.monotonic()
    sampling = replace(sampling, max_tokens=min(sampling.max_tokens, settings.max_tokens))
    tell = on_message or (lambda message: None)
    run = _Run(question, policy, sandbox, settings, sampling, tell)
    stop: StopReason
    error = ""
    try:
        stop = await (run.agentic() if settings.mode == "agentic" else run.single_turn())
    except ContextOverflow as overflow:
        stop, error = "context_exceeded", str(overflow)
    except InfrastructureError as failure:
        stop, error = "infrastructure", str(failure)
    return Episode(
        messages=run.messages,
        tool_log=run.tools.log,
        sql=run.tools.sql,
        stop_reason=stop,
        write_attempts=run.tools.write_attempts,
        turns=run.turns,
        prompt_tokens=run.prompt_tokens,
        completion_tokens=run.completion_tokens,
        seconds=time.monotonic() - started,
        error=error,
        submitted=run.tools.submitted,
    )


@dataclass
class _Run:
    """The state of one rollout; ``tell`` gets each message."""

    question: Question
    policy: Policy
    sandbox: Sandbox
    settings: AgentSettings
    sampling: Sampling
    tell: OnMessage
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    compacted: bool = False

    def __post_init__(self) -> None:
        self.tools = Tools(self.question, self.sandbox, self.settings)
        self.messages = opening_messages(self.question, self.settings)

    async def agentic(self) -> StopReason:
        """Take turns until something ends the rollout."""
        nudged = False
        for message in self.messages:
            self.tell(message)
        while self.turns < self.settings.max_turns:
            reply = await self._reply_that_fits()
            if reply.truncated:
                return "truncated"
            if not reply.tool_calls:
                if nudged:
                    return "no_action"
                nudged = True
                self._add({"role": "user", "content": NUDGE})
                continue
            last = self.turns + 1 == self.settings.max_turns
            for place, call in enumerate(reply.tool_calls):
                text = await self.tools.call(call.name, call.arguments, place)
                if last and place + 1 == len(reply.tool_calls):
                    text += f"\n\n{LAST_TURN}"
                self._add({"role": "tool", "tool_call_id": call.id, "content": text})
            if self.tools.submitted is not None:
                return "submit"
        return "turn_limit"

    async def single_turn(self) -> StopReason:
        """Show the schema, ask once, and take the SQL out of the reply."""
        schema = await asyncio.to_thread(describe, self.question.database, self.sandbox)
        text = render_full(schema, schema_budget(self.settings))
        self.messages = opening_messages(self.question, self.settings, text)
        for message in self.messages:
            self.tell(message)
        reply = await self._reply()
        if reply.truncated:
            return "truncated"
        if text := _submission(reply):
            self.tools.submit(text)
        return "submit" if text else "no_action"

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.tell(message)

    async def _reply_that_fits(self) -> Reply:
        """Ask for a reply; if the conversation is too long, shorten old results once."""
        try:
            return await self._reply()
        except ContextOverflow:
            shorter = None if self.compacted else _compact(self.messages)
            if shorter is None:
                raise
            self.compacted, self.messages = True, shorter
            return await self._reply()

    async def _reply(self) -> Reply:
        tools = TOOL_SCHEMAS if self.settings.mode == "agentic" else []
        reply = await self.policy.complete(self.messages, tools, self.sampling)
        self.turns += 1
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.messages.append(reply.message)
        # Servers refuse arguments that are not a JSON object, so the history has {} for these;
        # whoever follows the rollout sees what the model wrote.
        calls = [
            {"id": call.id, "type": "function",
             "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]  # fmt: skip
        self.tell(reply.message | ({"tool_calls": calls} if calls else {}))
        return reply


def _submission(reply: Reply) -> str:
    """Return the query of a single-turn reply: from a call of submit, or from its text."""
    # A policy that was trained with tools may call them although it was shown none.
    for call in reply.tool_calls:
        if call.name == "submit":
            with suppress(Mistake):
                return str(checked(call.name, call.arguments)["sql"])
    return sql_in(reply.content)


def _compact(messages: list[Message]) -> list[Message] | None:
    """Shorten the long tool results except the last, or the only one; None if none is long."""
    long = [
        index
        for index, message in enumerate(messages)
        if message["role"] == "tool" and len(message["content"]) > 2 * _COMPACTED_CHARS
    ]
    if not long:
        return None
    shorter = list(messages)
    for index in long[:-1] or long:
        text = messages[index]["content"][:_COMPACTED_CHARS]
        shorter[index] = {**messages[index], "content": f"{text}... [cut to make room]"}
    return shorter
