"""Pre-train the pocket policy: ``python -m text2sql.training.pretraining.pretrain --out DIR``.

Reproduces the shipped weights from code and seeds alone. A general phase teaches the tools, SQL and
the general phrasing; a second phase shows a little of the target phrasing, which leaves room for
reinforcement learning. All demonstrations are correct.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

from text2sql.common.files import whole_folder
from text2sql.common.json_files import write_json
from text2sql.datasets.pocket.tokenizer import RUN_SQL, SUBMIT, train_tokenizer
from text2sql.datasets.pocket.traces import AGENT_CONFIG, demonstrations
from text2sql.datasets.pocket.words import DEV, UNSEEN
from text2sql.training.pretraining import phases

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

PEAK_RATE = 2e-3
WARM_UP = 100


def new_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return a Qwen3 of four layers and about a million parameters with random weights."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 16) * 16,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def train(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    phase: phases.Phase,
    probes: Mapping[str, list[phases.Example]],
    checkpoint: Path,
) -> None:
    """Run one phase; print the loss every 50 steps, and every 300 evaluate and save."""
    started = time.monotonic()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.05
    )
    batches = DataLoader(
        phases.Demonstrations(tokenizer, phase), batch_size=None, num_workers=1, prefetch_factor=8
    )
    model.train()
    for done, (ids, weights) in enumerate(islice(batches, phase.steps)):
        # Linear warm-up, then a cosine down to a twentieth.
        cosine = 0.5 * (1 + math.cos(math.pi * done / phase.steps))
        factor = min(1.0, (done + 1) / WARM_UP) * (0.05 + 0.95 * cosine)
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * factor
        loss = weighted_loss(model, ids, weights)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step = done + 1
        if step % 50 == 0:
            seconds = time.monotonic() - started
            print(f"{seconds:6.0f} s  step {step}  loss {loss.item():.4f}", flush=True)
        if step % 300 == 0:
            evaluate(model, tokenizer, probes)
            model.train()
            save(model, tokenizer, checkpoint)
    model.eval()


def weighted_loss(
    model: Qwen3ForCausalLM, ids: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Return the mean cross-entropy; padding is on the right with weight 0 and needs no mask."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=ids).logits
    losses = functional.cross_entropy(
        logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
    )
    counts = weights[:, 1:].flatten()
    return (losses * counts).sum() / counts.sum()


def probe_sets(
    tokenizer: PreTrainedTokenizerFast, count: int = 64
) -> dict[str, list[phases.Example]]:
    """Questions for a quick look: general, target, and target with unseen words."""
    parts = {"general": (DEV, 0.0), "target": (DEV, 1.0), "unseen": (UNSEEN, 1.0)}
    return {
        name: [
            phases.encode(tokenizer, messages)
            for messages in islice(demonstrations(901, share, 0.0, vocabulary), count)
        ]
        for name, (vocabulary, share) in parts.items()
    }


@torch.no_grad()
def exact_share(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, examples: list[phases.Example]
) -> float:
    """Return the share of demonstrations whose first SQL the policy would write exactly.

    A lower bound on greedy accuracy: another SQL with the same result does not count.
    """
    starts = {tokenizer.convert_tokens_to_ids(token) for token in (SUBMIT, RUN_SQL)}
    exact = 0
    for ids, weights in examples:
        guesses = model(input_ids=torch.tensor([ids])).logits[0].argmax(-1).tolist()
        start = next(i for i, token in enumerate(ids) if token in starts)
        end = next(i for i in range(start, len(ids)) if weights[i] < 1.0)
        exact += guesses[start : end - 1] == ids[start + 1 : end]
    return exact / len(examples)


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Write the policy directory atomically: bf16 weights, tokenizer, template, agent settings."""
    from transformers import GenerationConfig, Qwen3ForCausalLM

    weights = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items()}
    copy = Qwen3ForCausalLM(model.config).bfloat16()
    copy.load_state_dict(weights)
    copy.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    with whole_folder(directory) as partial:
        copy.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        write_json(partial / "agent_config.json", AGENT_CONFIG)


def evaluate(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    probes: Mapping[str, list[phases.Example]],
) -> None:
    """Print the share of exact SQL per probe set."""
    model.eval()
    shares = {name: f"{exact_share(model, tokenizer, ones):.3f}" for name, ones in probes.items()}
    print(f"          exact SQL {shares}", flush=True)


def pretrain(out: Path, general: phases.Phase, mixed: phases.Phase) -> None:
    """Run both phases; ``out`` gets ``general`` (after the first phase) and ``policy``.

    An existing ``general`` directory replaces the first phase.
    """
    from transformers import Qwen3ForCausalLM

    start, checkpoint = out / general.name, out / "checkpoint"
    tokenizer = train_tokenizer()
    probes = probe_sets(tokenizer)
    if not start.is_dir():
        model = new_model(tokenizer)
        train(model, tokenizer, general, probes, checkpoint)
        save(model, tokenizer, start)
    model = Qwen3ForCausalLM.from_pretrained(start, dtype=torch.float32)
    train(model, tokenizer, mixed, probes, checkpoint)
    evaluate(model, tokenizer, probes)
    save(model, tokenizer, out / "policy")


def main() -> None:
    """Parse the command line and pre-train."""
    parser = argparse.ArgumentParser(description="Pre-train the pocket policy on a CPU.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--steps", type=int, nargs=2, metavar=("GENERAL", "MIXED"))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    steps = arguments.steps or (phases.GENERAL.steps, phases.MIXED.steps)
    torch.set_num_threads(arguments.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    arguments.out.mkdir(parents=True, exist_ok=True)
    general, mixed = replace(phases.GENERAL, steps=steps[0]), replace(phases.MIXED, steps=steps[1])
    pretrain(arguments.out, general, mixed)


if __name__ == "__main__":
    main()
