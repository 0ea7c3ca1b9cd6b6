"""The rollouts of a GRPO step: drawn with the agent's own loop by the model that is being trained.

Agent, tools, sandbox and judge are those of the difficulty filter and of the evaluation; only the
tokens are recorded here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from text2sql.agent.loop import run_episode
from text2sql.agent.settings import AgentSettings
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.policy.base import Message, PolicyInfo, Reply, Sampling
from text2sql.policy.local.policy import ModelPolicy
from text2sql.questions import Question
from text2sql.rollouts.draw import judge_episode, origin_of
from text2sql.rollouts.store import Rollout
from text2sql.sandbox import Sandbox

_SAMPLING = Sampling(temperature=1.0)
_MAX_INVALID = 0.5


@dataclass
class Recorder:
    """The policy of one rollout: continues its own tokens and records which ones it wrote.

    A later turn's prompt is the tokens so far plus those of the new messages. The text is never
    tokenized again, so the gradient belongs to the tokens that were drawn.
    """

    policy: ModelPolicy
    stream: Random
    prompt: list[int] = field(default_factory=list)
    completion: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Take the model's name."""
        self.info = self.policy.info

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> Reply:
        """Write the next turn; see ``Policy.complete``."""
        read = self._new_tokens(self.policy.encode(messages, tools))
        prompt = [*self.prompt, *self.completion, *read]
        if not self.prompt:
            self.prompt, read = prompt, []
        turn = await self.policy.write(prompt, sampling, self.stream)
        self.completion += read + turn.reply
        self.written += [0] * len(read) + [1] * len(turn.reply)
        return self.policy.reply(turn, tools)

    async def close(self) -> None:
        """Do nothing: other rollouts use the model."""

    def _new_tokens(self, conversation: list[int]) -> list[int]:
        """Return what follows the turns so far; each message ends with a stop token."""
        turns = sum(token in self.policy.stop for token in (*self.prompt, *self.completion))
        if not self.prompt:
            return conversation
        ends = [i for i, token in enumerate(conversation) if token in self.policy.stop]
        if len(ends) < turns or not turns:
            raise Text2SqlError(
                "The chat template does not end each message with the stop token, so GRPO "
                "cannot continue a conversation; give the policy a ChatML template."
            )
        return conversation[ends[turns - 1] + 1 :]


@dataclass(frozen=True)
class StepRollouts:
    """One step's rollouts, their tokens, and how long they took."""

    rollouts: list[Rollout]
    recorders: list[Recorder]
    seconds: float

    @property
    def rewards(self) -> list[float | None]:
        """Each rollout's reward, None for an infrastructure failure."""
        return [rollout.reward for rollout in self.rollouts]

    def summary(self) -> dict[str, float]:
        """Return the step's numbers over the valid rollouts."""
        valid = [reward for reward in self.rewards if reward is not None]
        return {
            "reward": sum(valid) / len(valid),
            "exact_match": sum(reward == 1.0 for reward in valid) / len(valid),
            "invalid": len(self.rewards) - len(valid),
            "completions_per_second": len(self.rollouts) / self.seconds,
        }


@dataclass(frozen=True)
class RolloutDrawer:
    """Draws rollouts of questions, by their keys, and judges them.

    ``seed`` and the step's number determine every random draw, so a resumed run draws what an
    uninterrupted one would have drawn.
    """

    questions: Mapping[str, Question]
    golds: Mapping[str, GoldResult]
    sandbox: Sandbox
    settings: AgentSettings
    seed: int

    def draw(self, model: Any, tokenizer: Any, keys: Sequence[str], step: int) -> StepRollouts:
        """Draw one rollout per key, all at once, with the model as it is now.

        Raises InfrastructureError if more than half of them are invalid.
        """
        started = time.monotonic()
        training = model.training
        model.eval()
        try:
            drawn = asyncio.run(self._draw(model, tokenizer, keys, step))
        finally:
            model.train(training)
        rollouts = [rollout for rollout, _ in drawn]
        failed = [rollout for rollout in rollouts if rollout.reward is None]
        if len(failed) > _MAX_INVALID * len(rollouts):
            raise InfrastructureError(
                f"{len(failed)} of {len(rollouts)} rollouts of step {step} failed, "
                f"the first with: {failed[0].error}"
            )
        recorders = [recorder for _, recorder in drawn]
        return StepRollouts(rollouts, recorders, time.monotonic() - started)

    async def _draw(
        self, model: Any, tokenizer: Any, keys: Sequence[str], step: int
    ) -> list[tuple[Rollout, Recorder]]:
        info = PolicyInfo("training", f"step-{step}")
        policy = ModelPolicy(model, tokenizer, info, max_batch=len(keys))
        try:
            streams = [Random(f"{self.seed}/{step}/{index}") for index in range(len(keys))]
            recorders = [Recorder(policy, stream) for stream in streams]
            rollouts = await asyncio.gather(*map(self._one, keys, recorders))
        finally:
            await policy.close()
        return list(zip(rollouts, recorders, strict=True))

    async def _one(self, key: str, recorder: Recorder) -> Rollout:
        question = self.questions[key]
        episode = await run_episode(question, recorder, self.sandbox, self.settings, _SAMPLING)
        origin = origin_of(recorder.info, self.settings, _SAMPLING) | {"sample": 0}
        return await asyncio.to_thread(
            judge_episode, episode, question, self.golds[key], self.sandbox, origin
        )
