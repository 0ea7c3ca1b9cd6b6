"""From settings to prime-rl's configuration file.

The names are prime-rl's, at the commit ``WRITTEN_FOR``. Whether prime-rl accepts them is for
prime-rl to say: ``preflight.dry_run`` asks it before every run.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from text2sql.agent.settings import AgentSettings
from text2sql.common.files import write_whole
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.settings import LaunchPlan, PrimeRlSettings, SingleNode, SlurmNodes

WRITTEN_FOR = "559b44772e471d1538537b8805cc77f3824a5e64"
"""The commit of prime-rl whose configuration is written here (v0.8.1.dev67, 2026-08-21)."""

TRAINER_METRICS = "metrics.trainer.jsonl"
ORCHESTRATOR_METRICS = "metrics.orchestrator.jsonl"
TRAIN_SOURCE, EVAL_SOURCE = "train", "eval"
LORA_NAME = "text2sql"
"""The adapter's name on the inference server."""

_ENVIRONMENT = "text2sql-env"
# Eight rewards of 0.1 have an advantage of -7.45e-9 in float32: bounds of 0 would let them pass.
_NO_ADVANTAGE = 1e-6

Table = dict[str, Any]


def rl_config(settings: PrimeRlSettings, plan: LaunchPlan) -> Table:
    """Return the configuration as nested tables; ``settings`` are those of the plan.

    Raises Text2SqlError for a missing or relative path.
    """
    for name, value in plan:
        if isinstance(value, Path) and not value.is_absolute():
            raise Text2SqlError(
                f"{name} is {value}: give an absolute path, since prime-rl runs in another folder."
            )
    tables: Table = {
        "max_steps": settings.steps,
        "seq_len": settings.sequence_tokens,
        "output_dir": str(plan.output_dir),
        "run": {"name": plan.name},  # a fixed name: prime-rl resumes by it
        "model": {"name": plan.policy_dir},
    }
    if isinstance(settings, SlurmNodes):
        if not (plan.package and plan.prime_rl_dir):
            raise Text2SqlError(
                "A Slurm job needs prime-rl's checkout and the environment's package."
            )
        tables["deployment"] = {
            "type": "multi_node",
            "gpus_per_node": settings.gpus_per_node,
            "num_train_nodes": settings.train_nodes,
            "num_infer_nodes": settings.inference_nodes,
        }
        tables["slurm"] = {
            "job_name": plan.name,
            "project_dir": str(plan.prime_rl_dir),
            "partition": settings.partition,
            **({"account": settings.account} if settings.account else {}),
            "time": settings.time_limit,
            # The job runs `uv sync`, which removes packages that prime-rl does not list.
            "pre_run_command": f"uv pip install --no-deps {shlex.quote(str(plan.package))}",
            # A failed job sleeps before it ends: an hour, unless this is set.
            "cleanup_grace_period": settings.failure_wait_seconds,
        }
    else:
        assert isinstance(settings, SingleNode)
        tables["deployment"] = {
            "type": "single_node",
            "gpus_per_node": settings.gpus_per_node,
            "num_train_gpus": settings.train_gpus,
            "num_infer_gpus": settings.inference_gpus,
        }
    return tables | {
        # Without this no weights that can be served reach the disk.
        "weight_broadcast": {"type": "filesystem"},
        "ckpt": {"interval": settings.save_every, "keep_last": settings.checkpoints_kept},
        "trainer": _trainer(settings),
        "orchestrator": _orchestrator(settings, plan),
        "inference": _inference(settings),
    }


def write_toml(config: Table, path: Path) -> None:
    """Write the file atomically."""
    import tomli_w

    write_whole(path, tomli_w.dumps(config))


def _trainer(settings: PrimeRlSettings) -> Table:
    model: Table = {
        "attn": "auto",
        "impl": "auto",
        "optimization_dtype": "float32",
        "reduce_dtype": "float32",
        "ac": {"mode": "full"},
    }
    if settings.lora_rank:
        layers = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        model["lora"] = {
            "rank": settings.lora_rank,
            "alpha": settings.lora_alpha,
            "dropout": 0.0,
            "target_modules": list(layers),
        }
    rate = settings.learning_rate
    return {
        "monitors": {"file": {"path": TRAINER_METRICS}},
        "model": model,
        "optim": {"type": "adamw", "lr": rate, "weight_decay": 0.0, "max_norm": 1.0},
        "scheduler": {"type": "constant"},
        "loss": {"type": "default", "kl_tau": settings.kl_tau},
    }


def _orchestrator(settings: PrimeRlSettings, plan: LaunchPlan) -> Table:
    limit = settings.rollouts_in_flight
    sampling = {"temperature": settings.temperature, "max_completion_tokens": settings.reply_tokens}
    gate = {"type": "advantage_range", "reject_min": -_NO_ADVANTAGE, "reject_max": _NO_ADVANTAGE}
    training = _source(settings, plan, TRAIN_SOURCE, plan.prompts, plan.golds)
    training["curriculum"] = {"gates": {"zero_advantage": gate}}
    tables: Table = {
        "batch_size": settings.prompts_per_step * settings.group_size,
        "group_size": settings.group_size,
        "max_off_policy_steps": settings.off_policy_steps,
        "env_server_base_port": settings.environment_port,
        "monitors": {"file": {"path": ORCHESTRATOR_METRICS}},
        **({"model": {"lora": {"name": LORA_NAME}}} if settings.lora_rank else {}),
        "algo": {"type": "grpo"},
        "concurrency": {"initial_inflight": limit // 2, "max_inflight": limit},
        "renderer": {"name": "qwen3.5", "enable_thinking": settings.thinking},
        "train": {"sampling": sampling, "source": [training]},
    }
    prompts, golds = plan.evaluation_prompts, plan.evaluation_golds
    if (prompts is None) != (golds is None):
        raise Text2SqlError("Evaluation during the run needs both its prompts and gold results.")
    if settings.evaluate_every and prompts and golds:
        tables["eval"] = {
            "interval": settings.evaluate_every,
            "num_examples": settings.evaluation_questions,
            "group_size": 1,
            "skip_first_step": False,
            "sampling": {
                "temperature": 0.0,
                "max_completion_tokens": settings.reply_tokens,
                # Evaluations use the chat endpoint, which does not know the renderer's setting.
                "extra_body": {"chat_template_kwargs": {"enable_thinking": settings.thinking}},
            },
            "source": [_source(settings, plan, EVAL_SOURCE, prompts, golds)],
        }
    return tables


def _source(
    settings: PrimeRlSettings, plan: LaunchPlan, name: str, prompts: Path, golds: Path
) -> Table:
    """Return a source of rollouts: its environment and how many processes serve it."""
    workers = settings.environment_workers
    if name == EVAL_SOURCE:  # an evaluation pauses the training, so it gets the smaller share
        workers = max(1, workers // 2)
    taskset = {"id": _ENVIRONMENT, "prompts": str(prompts), "golds": str(golds)}
    limits = settings.agent_settings(AgentSettings(**plan.agent))
    agent = {
        "max_turns": settings.max_turns,
        "max_total_tokens": settings.sequence_tokens,
        # prime-rl's defaults are a host shell as harness and a remote sandbox as runtime.
        "harness": {"id": _ENVIRONMENT, "settings": limits.to_dict()},
        "runtime": {"type": "subprocess"},
        "timeout": {"rollout": settings.rollout_seconds, "scoring": 60.0},
    }
    return {
        "name": name,
        "env": {"taskset": taskset | {"seed": settings.seed}, "agent": agent},
        "serve": {"pool": {"type": "static", "num_workers": workers}},
    }


def _inference(settings: PrimeRlSettings) -> Table:
    tables: Table = {
        "server": {"port": settings.router_port},
        "backend_port": settings.engine_port,
        "vllm": {
            "max_model_len": settings.sequence_tokens,
            "gpu_memory_utilization": settings.gpu_memory,
            "tensor_parallel_size": settings.tensor_parallel,
            "tool_call_parser": "qwen3_coder",
            "reasoning_parser": "qwen3",
        },
    }
    if isinstance(settings, SlurmNodes):
        tables["deployment"] = {"type": "multi_node", "num_nodes": settings.inference_nodes}
    return tables
