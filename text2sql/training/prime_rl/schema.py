"""The part of prime-rl's configuration that is written here, with its names and types.

A mirror of prime-rl at the commit ``MIRRORED``: unknown names are errors there and here. Whether
prime-rl itself takes a file is what ``dry_run`` asks.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from text2sql.training.prime_rl.schema_base import Monitors, Section
from text2sql.training.prime_rl.schema_rollouts import Orchestrator

MIRRORED = "559b44772e471d1538537b8805cc77f3824a5e64"
"""The commit of prime-rl whose names and types these are (v0.8.1.dev67, 2026-08-21)."""


class Run(Section):
    """``[run]``: the name of the run's directory; a fixed one is needed to resume."""

    name: str


class Model(Section):
    """``[model]``: the base model, a hub name or a directory."""

    name: str


class SingleNodeDeployment(Section):
    """``[deployment]`` on one machine."""

    type: Literal["single_node"] = "single_node"
    gpus_per_node: int
    num_train_gpus: int
    num_infer_gpus: int


class MultiNodeDeployment(Section):
    """``[deployment]`` over several machines."""

    type: Literal["multi_node"] = "multi_node"
    gpus_per_node: int
    num_train_nodes: int
    num_infer_nodes: int


class Slurm(Section):
    """``[slurm]``: how the job is submitted.

    The job runs ``uv sync``, which removes packages that prime-rl does not know;
    ``pre_run_command`` runs after it. A job that failed sleeps for ``cleanup_grace_period``
    seconds before it ends: an hour, if that is not set.
    """

    job_name: str
    project_dir: str
    partition: str
    account: str | None = None
    time: str
    pre_run_command: str
    cleanup_grace_period: int = Field(ge=0)


class WeightBroadcast(Section):
    """``[weight_broadcast]``: without ``filesystem`` no weights for serving reach the disk."""

    type: Literal["filesystem"] = "filesystem"


class Checkpoints(Section):
    """``[ckpt]``."""

    interval: int
    keep_last: int = Field(ge=1)


class ActivationCheckpointing(Section):
    """``[trainer.model.ac]``."""

    mode: Literal["full"] = "full"


class Lora(Section):
    """``[trainer.model.lora]``."""

    rank: int = Field(ge=1)
    alpha: float
    dropout: float
    target_modules: list[str]


class TrainerModel(Section):
    """``[trainer.model]``."""

    attn: Literal["auto"] = "auto"
    impl: Literal["auto"] = "auto"
    optimization_dtype: Literal["float32"] = "float32"
    reduce_dtype: Literal["float32"] = "float32"
    ac: ActivationCheckpointing = ActivationCheckpointing()
    lora: Lora | None = None


class Optimizer(Section):
    """``[trainer.optim]``."""

    type: Literal["adamw"] = "adamw"
    lr: float
    weight_decay: float
    max_norm: float


class Scheduler(Section):
    """``[trainer.scheduler]``."""

    type: Literal["constant"] = "constant"


class Loss(Section):
    """``[trainer.loss]``."""

    type: Literal["default"] = "default"
    kl_tau: float


class Trainer(Section):
    """``[trainer]``."""

    monitors: Monitors
    model: TrainerModel
    optim: Optimizer
    scheduler: Scheduler = Scheduler()
    loss: Loss


class Server(Section):
    """``[inference.server]``: the router's port."""

    port: int


class InferenceNodes(Section):
    """``[inference.deployment]`` over several machines, an independent server on each."""

    type: Literal["multi_node"] = "multi_node"
    num_nodes: int = Field(ge=1)


class Vllm(Section):
    """``[inference.vllm]``: arguments of vLLM."""

    max_model_len: int
    gpu_memory_utilization: float
    tensor_parallel_size: int
    tool_call_parser: Literal["qwen3_coder"] = "qwen3_coder"
    reasoning_parser: Literal["qwen3"] = "qwen3"


class Inference(Section):
    """``[inference]``."""

    server: Server
    backend_port: int
    vllm: Vllm
    deployment: InferenceNodes | None = None


class RlConfig(Section):
    """The whole file."""

    max_steps: int
    seq_len: int
    output_dir: str
    run: Run
    model: Model
    deployment: SingleNodeDeployment | MultiNodeDeployment
    slurm: Slurm | None = None
    weight_broadcast: WeightBroadcast = WeightBroadcast()
    ckpt: Checkpoints
    trainer: Trainer
    orchestrator: Orchestrator
    inference: Inference
