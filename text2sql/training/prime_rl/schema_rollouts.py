"""``[orchestrator]`` of prime-rl's configuration: what is sampled, and from which environment."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from text2sql.training.prime_rl.schema_base import Monitors, Section


class ServedLora(Section):
    """``[orchestrator.model.lora]``: the adapter's name on the inference server."""

    name: str


class OrchestratorModel(Section):
    """``[orchestrator.model]``."""

    lora: ServedLora


class Algorithm(Section):
    """``[orchestrator.algo]``."""

    type: Literal["grpo"] = "grpo"


class Concurrency(Section):
    """``[orchestrator.concurrency]``: rollouts in flight."""

    initial_inflight: int = Field(ge=1)
    max_inflight: int = Field(ge=1)


class Renderer(Section):
    """``[orchestrator.renderer]``: how messages become tokens in training."""

    name: Literal["qwen3.5"] = "qwen3.5"
    enable_thinking: bool


class TrainSampling(Section):
    """``[orchestrator.train.sampling]``; the tokens are those of one turn."""

    temperature: float
    max_completion_tokens: int


class EvalSampling(TrainSampling):
    """``[orchestrator.eval.sampling]``: evaluations use the chat endpoint, not the renderer."""

    extra_body: dict[str, Any]


class AdvantageGate(Section):
    """A gate that rejects groups without an advantage; another group is drawn instead."""

    type: Literal["advantage_range"] = "advantage_range"
    reject_min: float
    reject_max: float


class Curriculum(Section):
    """``curriculum`` of a training source."""

    gates: dict[str, AdvantageGate]


class Taskset(Section):
    """``env.taskset``: the fields of ``text2sql.training.verifiers_env.TasksetConfig``."""

    id: Literal["text2sql-env"] = "text2sql-env"
    prompts: str
    golds: str
    seed: int


class Harness(Section):
    """``env.agent.harness``: unset would be a host shell."""

    id: Literal["text2sql-env"] = "text2sql-env"
    settings: dict[str, str | int | float | bool]


class Runtime(Section):
    """``env.agent.runtime``: unset would be a remote sandbox."""

    type: Literal["subprocess"] = "subprocess"


class Timeout(Section):
    """``env.agent.timeout``, in seconds."""

    rollout: float
    scoring: float


class Agent(Section):
    """``env.agent``."""

    max_turns: int
    max_total_tokens: int
    harness: Harness
    runtime: Runtime = Runtime()
    timeout: Timeout


class Environment(Section):
    """``env`` of a source."""

    taskset: Taskset
    agent: Agent


class Pool(Section):
    """``serve.pool``: the processes that run the environment."""

    type: Literal["static"] = "static"
    num_workers: int = Field(ge=1)


class Serve(Section):
    """``serve`` of a source."""

    pool: Pool


class EvalSource(Section):
    """``[[orchestrator.eval.source]]``."""

    name: str
    env: Environment
    serve: Serve


class TrainSource(EvalSource):
    """``[[orchestrator.train.source]]``."""

    curriculum: Curriculum


class Train(Section):
    """``[orchestrator.train]``."""

    sampling: TrainSampling
    source: list[TrainSource]


class Eval(Section):
    """``[orchestrator.eval]``."""

    interval: int = Field(ge=1)
    num_examples: int
    group_size: int
    skip_first_step: bool
    sampling: EvalSampling
    source: list[EvalSource]


class Orchestrator(Section):
    """``[orchestrator]``; ``batch_size`` counts rollouts and is a multiple of ``group_size``."""

    batch_size: int = Field(ge=1)
    group_size: int = Field(ge=1)
    max_off_policy_steps: int = Field(ge=0)
    env_server_base_port: int
    monitors: Monitors
    model: OrchestratorModel | None = None
    algo: Algorithm = Algorithm()
    concurrency: Concurrency
    renderer: Renderer
    train: Train
    eval: Eval | None = None
