"""From settings to prime-rl's configuration file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from text2sql.agent.settings import AgentSettings
from text2sql.common.files import write_whole
from text2sql.training.prime_rl import schema
from text2sql.training.prime_rl import schema_rollouts as rollouts
from text2sql.training.prime_rl.files import RunFiles, check_paths
from text2sql.training.prime_rl.schema_base import FileMonitor, Monitors
from text2sql.training.prime_rl.settings import PrimeRlSettings, SingleNode, SlurmNodes

TRAINER_METRICS = "metrics.trainer.jsonl"
ORCHESTRATOR_METRICS = "metrics.orchestrator.jsonl"
TRAIN_SOURCE, EVAL_SOURCE = "train", "eval"
LORA_NAME = "text2sql"
"""The adapter's name on the inference server."""

_LORA_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
_SCORING_SECONDS = 60.0
# Eight rewards of 0.1 give an advantage of -7.45e-9 in float32, so 0 would let them pass.
_NO_ADVANTAGE = 1e-6


def rl_config(
    settings: PrimeRlSettings, files: RunFiles, agent: AgentSettings | None = None
) -> schema.RlConfig:
    """Compose the configuration.

    ``agent`` has the base policy's settings; its turns and reply tokens are taken from
    ``settings``. Raises Text2SqlError where a path that is needed is missing or relative.
    """
    check_paths(settings, files)
    agent = settings.agent_settings(agent or AgentSettings())
    return schema.RlConfig(
        max_steps=settings.steps,
        seq_len=settings.sequence_tokens,
        output_dir=str(files.output_dir),
        run=schema.Run(name=files.name),
        model=schema.Model(name=files.model),
        deployment=_deployment(settings),
        slurm=_slurm(settings, files),
        ckpt=schema.Checkpoints(interval=settings.save_every, keep_last=settings.checkpoints_kept),
        trainer=_trainer(settings),
        orchestrator=_orchestrator(settings, files, agent),
        inference=_inference(settings),
    )


def write_toml(config: schema.RlConfig, path: Path) -> None:
    """Write the file, whole or not at all."""
    write_whole(path, toml_text(config))


def toml_text(config: schema.RlConfig) -> str:
    """Return the file's text."""
    import tomli_w

    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def _deployment(
    settings: PrimeRlSettings,
) -> schema.SingleNodeDeployment | schema.MultiNodeDeployment:
    if isinstance(settings, SlurmNodes):
        return schema.MultiNodeDeployment(
            gpus_per_node=settings.gpus_per_node,
            num_train_nodes=settings.train_nodes,
            num_infer_nodes=settings.inference_nodes,
        )
    assert isinstance(settings, SingleNode)
    return schema.SingleNodeDeployment(
        gpus_per_node=settings.gpus_per_node,
        num_train_gpus=settings.train_gpus,
        num_infer_gpus=settings.inference_gpus,
    )


def _slurm(settings: PrimeRlSettings, files: RunFiles) -> schema.Slurm | None:
    if not isinstance(settings, SlurmNodes):
        return None
    return schema.Slurm(
        job_name=files.name,
        project_dir=str(files.prime_rl_dir),
        partition=settings.partition,
        account=settings.account or None,
        time=settings.time_limit,
        cleanup_grace_period=settings.failure_wait_seconds,
        pre_run_command=f"uv pip install --no-deps {shlex.quote(str(files.package))}",
    )


def _trainer(settings: PrimeRlSettings) -> schema.Trainer:
    lora = None
    if settings.lora_rank:
        lora = schema.Lora(
            rank=settings.lora_rank,
            alpha=settings.lora_alpha,
            dropout=0.0,
            target_modules=_LORA_MODULES,
        )
    return schema.Trainer(
        monitors=_metrics(TRAINER_METRICS),
        model=schema.TrainerModel(lora=lora),
        optim=schema.Optimizer(lr=settings.learning_rate, weight_decay=0.0, max_norm=1.0),
        loss=schema.Loss(kl_tau=settings.kl_tau),
    )


def _metrics(name: str) -> Monitors:
    return Monitors(file=FileMonitor(path=name))


def _orchestrator(
    settings: PrimeRlSettings, files: RunFiles, agent: AgentSettings
) -> rollouts.Orchestrator:
    served = rollouts.OrchestratorModel(lora=rollouts.ServedLora(name=LORA_NAME))
    return rollouts.Orchestrator(
        batch_size=settings.rollouts_per_step,
        group_size=settings.group_size,
        max_off_policy_steps=settings.off_policy_steps,
        env_server_base_port=settings.environment_port,
        monitors=_metrics(ORCHESTRATOR_METRICS),
        model=served if settings.lora_rank else None,
        concurrency=rollouts.Concurrency(
            initial_inflight=settings.rollouts_in_flight // 2,
            max_inflight=settings.rollouts_in_flight,
        ),
        renderer=rollouts.Renderer(enable_thinking=settings.thinking),
        train=_train(settings, files, agent),
        eval=_eval(settings, files, agent),
    )


def _train(settings: PrimeRlSettings, files: RunFiles, agent: AgentSettings) -> rollouts.Train:
    gate = rollouts.AdvantageGate(reject_min=-_NO_ADVANTAGE, reject_max=_NO_ADVANTAGE)
    source = rollouts.TrainSource(
        name=TRAIN_SOURCE,
        env=_environment(settings, agent, files.prompts, files.golds),
        serve=_serve(settings.environment_workers),
        curriculum=rollouts.Curriculum(gates={"zero_advantage": gate}),
    )
    sampling = rollouts.TrainSampling(
        temperature=settings.temperature, max_completion_tokens=settings.reply_tokens
    )
    return rollouts.Train(sampling=sampling, source=[source])


def _eval(settings: PrimeRlSettings, files: RunFiles, agent: AgentSettings) -> rollouts.Eval | None:
    if not settings.evaluate_every or not files.evaluation_prompts or not files.evaluation_golds:
        return None
    source = rollouts.EvalSource(
        name=EVAL_SOURCE,
        env=_environment(settings, agent, files.evaluation_prompts, files.evaluation_golds),
        serve=_serve(max(1, settings.environment_workers // 2)),
    )
    thinking: dict[str, Any] = {"enable_thinking": settings.thinking}
    return rollouts.Eval(
        interval=settings.evaluate_every,
        num_examples=settings.evaluation_questions,
        group_size=1,
        skip_first_step=False,
        sampling=rollouts.EvalSampling(
            temperature=0.0,
            max_completion_tokens=settings.reply_tokens,
            extra_body={"chat_template_kwargs": thinking},
        ),
        source=[source],
    )


def _environment(
    settings: PrimeRlSettings, agent: AgentSettings, prompts: Path, golds: Path
) -> rollouts.Environment:
    return rollouts.Environment(
        taskset=rollouts.Taskset(prompts=str(prompts), golds=str(golds), seed=settings.seed),
        agent=rollouts.Agent(
            max_turns=settings.max_turns,
            max_total_tokens=settings.sequence_tokens,
            harness=rollouts.Harness(settings=agent.to_dict()),
            timeout=rollouts.Timeout(rollout=settings.rollout_seconds, scoring=_SCORING_SECONDS),
        ),
    )


def _serve(workers: int) -> rollouts.Serve:
    return rollouts.Serve(pool=rollouts.Pool(num_workers=workers))


def _inference(settings: PrimeRlSettings) -> schema.Inference:
    nodes = None
    if isinstance(settings, SlurmNodes):
        nodes = schema.InferenceNodes(num_nodes=settings.inference_nodes)
    return schema.Inference(
        server=schema.Server(port=settings.router_port),
        backend_port=settings.engine_port,
        vllm=schema.Vllm(
            max_model_len=settings.sequence_tokens,
            gpu_memory_utilization=settings.gpu_memory,
            tensor_parallel_size=settings.tensor_parallel,
        ),
        deployment=nodes,
    )
