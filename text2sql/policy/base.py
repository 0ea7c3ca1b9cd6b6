"""What a policy is: messages in, one assistant reply out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Message = dict[str, Any]
"""One chat message in OpenAI's form; a tool call's ``arguments`` is always a JSON string."""


@dataclass(frozen=True)
class Sampling:
    """How replies are drawn: ``temperature`` 0 is greedy, ``max_tokens`` bounds one reply."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 2048


@dataclass(frozen=True)
class ToolCall:
    """One call as the policy wrote it; ``arguments`` is JSON text, possibly malformed.

    ``extra`` has the server's own fields of the call, such as a signature of the thought behind
    it, which go back with the history.
    """

    id: str
    name: str
    arguments: str
    extra: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Reply:
    """One assistant turn.

    ``message`` goes back into the history unchanged (reasoning included).
    ``finish_reason`` is ``stop``, ``tool_calls`` or ``length``; ``truncated`` says that the
    token limit cut the reply, whatever the server called it.
    """

    message: Message
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    truncated: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class PolicyInfo:
    """Who answered: a name for people, and a revision that changes when the weights do.

    Without ``weights_known`` a server says nothing of its weights: the revision is that of its
    model's name, and new weights under the same name look the same.
    """

    name: str
    revision: str
    weights_known: bool = True


class Policy(Protocol):
    """Anything that continues a conversation; safe to call from many rollouts at once."""

    info: PolicyInfo

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Return the next assistant turn; raises InfrastructureError or ContextOverflow."""
        ...

    async def close(self) -> None:
        """Free what the policy holds."""
        ...


class ContextOverflow(Exception):
    """The conversation no longer fits into the policy's context."""
