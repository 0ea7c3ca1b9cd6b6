"""GRPO with TRL on one machine: ``python -m text2sql.training.trl.train CONFIG.json``.

The configuration is a ``GrpoRun`` as JSON. Writes metrics.jsonl, checkpoints and, at the end, the
trained policy as a Hugging Face directory. A stopped run resumes from its last complete checkpoint.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from text2sql.agent.settings import AgentSettings
from text2sql.errors import Text2SqlError
from text2sql.policy.local.loading import load_model
from text2sql.sandbox import Sandbox
from text2sql.training.child import check_usage, end_with_parent, report_to_dagster
from text2sql.training.metrics import MetricsFile
from text2sql.training.trl.output import last_checkpoint, mark_complete, write_policy
from text2sql.training.trl.rollouts import RolloutDrawer, StepRollouts
from text2sql.training.trl.settings import GrpoRun, read_run, read_run_prompts

_say = partial(print, flush=True)
_MICRO_BATCH = 32  # rollouts in one backward pass
_PAD = 32
_NO_ADVANTAGE = 1e-6  # equal rewards leave rounding errors of some 1e-8
_QUIET = {
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_WAIT_POLICY": "PASSIVE",
}


def train(run: GrpoRun) -> Path:
    """Train the policy and return the directory of the result; see ``GrpoRun``."""
    if not run.resume:  # nothing of an earlier run may stay
        shutil.rmtree(run.checkpoints, ignore_errors=True)
        shutil.rmtree(run.policy, ignore_errors=True)
        run.metrics.unlink(missing_ok=True)
    if run.policy.exists():
        return run.policy
    prompts, golds = read_run_prompts(run)
    questions = {question.key: question for question in prompts}
    model, tokenizer = load_model(run.policy_dir, run.threads)
    settings = AgentSettings.for_policy(run.policy_dir)
    metrics = MetricsFile(run.metrics)
    with Sandbox() as sandbox:
        drawer = RolloutDrawer(questions, golds, sandbox, settings, run.seed)
        steps = _Steps(run, drawer, tokenizer)
        trainer = _trainer(run, model, tokenizer, list(questions), steps, metrics)
        trainer.train(resume_from_checkpoint=last_checkpoint(run, _say))
    metrics.close()
    write_policy(run, trainer.accelerator.unwrap_model(trainer.model))
    return run.policy


class _Steps:
    """What TRL calls: for a step's rollouts, and for their rewards."""

    def __init__(self, run: GrpoRun, drawer: RolloutDrawer, tokenizer: Any) -> None:
        self._run = run
        self._drawer = drawer
        self._tokenizer = tokenizer
        self.last: StepRollouts | None = None

    def rollouts(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Draw one rollout per prompt; a prompt's text is the key of its question."""
        keys = [prompt[-1]["content"] for prompt in prompts]
        step = trainer.state.global_step + 1
        model = trainer.accelerator.unwrap_model(trainer.model)
        self.last = drawn = self._drawer.draw(model, self._tokenizer, keys, step)
        end = self._tokenizer.eos_token_id
        return {
            "prompt_ids": [recorder.prompt or [end] for recorder in drawn.recorders],
            "completion_ids": [recorder.completion or [end] for recorder in drawn.recorders],
            "env_mask": [recorder.written or [0] for recorder in drawn.recorders],
            "logprobs": None,  # the model that draws is the one that learns
            "earned": self._rewards(drawn.rewards, step),
        }

    def _rewards(self, rewards: list[float | None], step: int) -> list[float | None]:
        """Return the rewards to learn from: shuffled in the control experiment."""
        if self._run.shuffle_rewards:
            Random(f"{self._run.seed}/{step}/shuffled").shuffle(rewards)
        return rewards

    @staticmethod
    def reward(earned: list[float | None], **_: Any) -> list[float | None]:
        """Return the judge's rewards; TRL ignores a rollout whose reward is None."""
        return earned


def _trainer(
    run: GrpoRun, model: Any, tokenizer: Any, keys: list[str], steps: _Steps, metrics: MetricsFile
) -> Any:
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOTrainer

    rows = [{"prompt": [{"role": "user", "content": key}]} for key in keys]

    class Trainer(GRPOTrainer):
        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
            return super()._compute_loss(model, informative(inputs))

    trainer = Trainer(
        model=model,
        reward_funcs=[steps.reward],
        args=_arguments(run, model),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        rollout_func=steps.rollouts,
        callbacks=[_reporter(run, steps, metrics)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def informative(inputs: dict[str, Any]) -> dict[str, Any]:
    """Drop the rollouts without an advantage, and the padding behind the others.

    A group with equal rewards has no advantage, so no gradient and, without a KL term, no loss:
    the result is the same for much less work. TRL computed the loss's normalizer over all rollouts
    before.
    """
    rows = (inputs["advantages"].abs() > _NO_ADVANTAGE).nonzero().flatten()
    rows = rows if len(rows) else rows.new_zeros(1)
    longest = int(inputs["completion_mask"][rows].sum(1).max())
    width = -(-longest // _PAD) * _PAD
    kept = {key: inputs[key][rows] for key in ("prompt_ids", "prompt_mask", "advantages")}
    for key in ("completion_ids", "completion_mask", "tool_mask"):
        if key in inputs:
            kept[key] = inputs[key][rows, :width]
    return inputs | kept


def _arguments(run: GrpoRun, model: Any) -> Any:
    import torch
    from trl import GRPOConfig

    total = run.groups_per_step * run.group_size
    micro = next(size for size in range(min(total, _MICRO_BATCH), 0, -1) if total % size == 0)
    return GRPOConfig(
        output_dir=str(run.checkpoints),
        max_steps=run.steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=total // micro,
        num_generations=run.group_size,
        max_completion_length=model.config.max_position_embeddings,
        pad_to_multiple_of=_PAD,
        learning_rate=run.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=3,
        adam_beta2=0.99,
        max_grad_norm=1.0,
        beta=0.0,
        temperature=1.0,
        loss_type="dapo",
        scale_rewards="group",
        seed=run.seed,
        save_strategy="steps",
        save_steps=run.save_every,
        save_total_limit=2,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
    )


def require_finite(logs: dict[str, Any], step: int) -> None:
    """Raise Text2SqlError, so that nothing is saved, after a step that ruined the weights."""
    for name in ("loss", "grad_norm"):
        if not math.isfinite(logs.get(name, 0.0)):
            raise Text2SqlError(
                f"The {name.replace('_', ' ')} of step {step} is {logs[name]}, not a finite "
                "number: the weights are ruined and are not saved. Set learning_rate lower and "
                "run it again to resume from the last checkpoint."
            )


def _reporter(run: GrpoRun, steps: _Steps, metrics: MetricsFile) -> Any:
    """Return the callback that writes a line per step and marks complete checkpoints."""
    from transformers import TrainerCallback

    class Reporter(TrainerCallback):
        started = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.started = time.monotonic()

        def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            logs = kwargs["logs"]
            if "loss" not in logs or steps.last is None:
                return
            require_finite(logs, state.global_step)
            line = {"step": state.global_step, **steps.last.summary()}
            line |= {name: logs[name] for name in ("loss", "entropy", "kl") if name in logs}
            line["seconds"] = time.monotonic() - self.started
            metrics.append(line)
            _say(
                f"step {line['step']} of {run.steps}: reward {line['reward']:.3f}, "
                f"exact match {line['exact_match']:.3f}, {line['seconds']:.1f} s"
            )

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            mark_complete(run, state.global_step)

    return Reporter()


def main(arguments: list[str]) -> int:
    """Run the program; an error that the user can fix is one sentence on stderr."""
    end_with_parent()
    os.environ.update(_QUIET)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    if (status := check_usage(arguments, "text2sql.training.trl.train", "CONFIG.json")) is not None:
        return status
    try:
        run = read_run(Path(arguments[0]))
        policy = train(run)
    except Text2SqlError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: training could not read or write: {error}", file=sys.stderr)
        return 1
    report_to_dagster({"policy": str(policy), "recipe": str(run.recipe())})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
