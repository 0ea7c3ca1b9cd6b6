"""The environment that prime-rl trains on: agent, tools and judge behind the API of verifiers v1.
They are the evaluation's own; nothing is decided here.

Import it through the package ``text2sql_env``: verifiers takes seconds to import. Works with
verifiers 0.3.1.dev62 and 0.4.0.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from text2sql.agent.loop import StopReason, run_episode
from text2sql.agent.settings import AgentSettings
from text2sql.errors import InfrastructureError
from text2sql.judge.verdicts import GoldResult, Verdict
from text2sql.policy.base import PolicyInfo, Sampling
from text2sql.policy.served.server import ServerPolicy
from text2sql.questions import Question
from text2sql.rollouts.draw import judge_episode, origin_of
from text2sql.sandbox import Sandbox, check_database
from text2sql.training.prompts import read_prompts

RESULT = "text2sql"
"""The key of a trace's ``info`` with the rollout's result: verdict, SQL, stop reason, calls."""

_RESULT_FIELDS = (
    *("key", "sql", "submitted", "status", "verdict", "digest", "row_count", "reward"),
    *("write_attempts", "turns", "stop_reason", "calls", "error"),
)
_MAX_WORKERS = 4
_POLICY = PolicyInfo("training", "")
_STOPPED_BY_VERIFIERS: dict[str, StopReason] = {
    "max_turns": "turn_limit",
    "max_input_tokens": "context_exceeded",
    "max_output_tokens": "context_exceeded",
    "max_total_tokens": "context_exceeded",
    "context_length": "context_exceeded",
}


class QuestionData(vf.TaskData):
    """One question and its gold result; crosses the wire and is part of every trace."""

    id: str
    question: Question
    gold: GoldResult


class EpisodeState(vf.State):
    """What the harness leaves for the judge; it never leaves this process."""

    episode: Any = None
    settings: Any = None


class QuestionTask(vf.Task[QuestionData, EpisodeState, vf.TaskConfig]):
    """Judges the episode as the evaluation does, and reports it."""

    @property
    def key(self) -> str:
        """The question's own key: unique, and the same in every run."""
        return self.data.id

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Judge the submission; raises InfrastructureError for a rollout without a verdict.

        verifiers drops such a rollout from training.
        """
        episode, settings = trace.state.episode, trace.state.settings
        origin = origin_of(_POLICY, settings, None) | {"sample": 0}
        sandbox = _sandbox(os.getpid())
        rollout = await asyncio.to_thread(
            judge_episode, episode, self.data.question, self.data.gold, sandbox, origin
        )
        if rollout.reward is None:
            raise InfrastructureError(f"The rollout has no verdict: {rollout.error}")
        result = asdict(rollout)
        trace.info[RESULT] = {name: result[name] for name in _RESULT_FIELDS}

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """The judge's reward."""
        return float(trace.info[RESULT]["reward"])

    @vf.metric
    async def exact_match(self, trace: vf.Trace) -> float:
        """1 if the submission's result is that of the gold query."""
        return float(trace.info[RESULT]["verdict"] == Verdict.MATCH)

    @vf.metric
    async def write_attempts(self, trace: vf.Trace) -> float:
        """How many statements would have written."""
        return float(trace.info[RESULT]["write_attempts"])

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        """How many replies the policy gave."""
        return float(trace.info[RESULT]["turns"])

    @vf.metric
    async def truncated(self, trace: vf.Trace) -> float:
        """1 if a token limit ended the rollout."""
        return float(trace.info[RESULT]["stop_reason"] in ("truncated", "context_exceeded"))


class TasksetConfig(vf.TasksetConfig):
    """Two files of JSON lines: questions, and their gold results.

    ``seed`` determines the order: prime-rl never shuffles.
    """

    prompts: Path
    golds: Path
    seed: int = 0


class Text2SqlTaskset(vf.Taskset[QuestionTask, TasksetConfig]):
    """The questions to train on."""

    def load(self) -> list[QuestionTask]:
        """Return all tasks, shuffled; raises Text2SqlError for a missing file or database."""
        questions, golds = read_prompts(self.config.prompts, self.config.golds)
        for database in {question.database for question in questions}:
            check_database(database)
        Random(self.config.seed).shuffle(questions)
        return [
            QuestionTask(
                QuestionData(
                    idx=number,
                    id=question.key,
                    name=question.key,
                    prompt=question.question,
                    question=question,
                    gold=golds[question.key],
                ),
                self.config.task,
            )
            for number, question in enumerate(questions)
        ]


class HarnessConfig(vf.HarnessConfig):
    """The agent's limits: those that the policy is evaluated with."""

    settings: AgentSettings = Field(default_factory=AgentSettings)


class Text2SqlHarness(vf.Harness[HarnessConfig]):
    """Runs the agent's loop in this process; its tools are function calls."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> vf.ProgramResult:
        """Run one episode through verifiers' endpoint and leave it for the judge.

        Raises InfrastructureError if the policy or the sandbox failed.
        """
        settings, given = self.config.settings, ctx.sampling
        sampling = Sampling(
            temperature=1.0 if given.temperature is None else given.temperature,
            top_p=1.0 if given.top_p is None else given.top_p,
            # By the limit of tokens the agent recognizes a truncated reply.
            max_tokens=given.max_tokens or settings.max_tokens,
        )
        sandbox = _sandbox(os.getpid())
        policy = ServerPolicy(endpoint, ctx.model, secret, revision="training")
        try:
            episode = await run_episode(data.question, policy, sandbox, settings, sampling)
        finally:
            await policy.close()
        # If verifiers rejected a turn by a limit, the agent saw only a failure.
        if stop := _STOPPED_BY_VERIFIERS.get(trace.stop_condition or ""):
            episode = replace(episode, stop_reason=stop, error="")
        if episode.stop_reason == "infrastructure":
            raise InfrastructureError(episode.error)
        trace.state.episode, trace.state.settings = episode, settings
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


@cache
def _sandbox(process: int) -> Sandbox:
    """Return the sandbox of a process: an env server forks or spawns its workers."""
    return Sandbox(min(_MAX_WORKERS, os.cpu_count() or 1))
