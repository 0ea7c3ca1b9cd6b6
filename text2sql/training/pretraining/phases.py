"""What pre-training reads: batches of tokenized demonstrations, phase by phase."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterableDataset

from text2sql.datasets.pocket.traces import Messages, demonstrations
from text2sql.datasets.pocket.words import PRETRAINING, Vocabulary, invent

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BATCH = 32
INVENTED_SHARE = 0.35
TARGET_WEIGHTS = {
    "agg": 1.8,
    "agg_eq": 1.8,
    "group_agg": 1.9,
    "join_agg": 8.0,
    "list_cmp": 1.2,
    "list_eq": 0.3,
    "count_cmp": 1.2,
    "count_and": 3.2,
    "neq": 1.0,
    "top1": 0.3,
    "topk": 0.3,
    "top_group": 2.6,
}
"""How often each family of the target phrasing is demonstrated: hard ones more often, so that the
policy solves each of them sometimes. GRPO cannot learn what the policy never solves."""
CONTEXT_WEIGHT = 0.1  # loss weight of tokens that others write: they teach the names in the context
MAX_TOKENS = 384


@dataclass(frozen=True)
class Phase:
    """One phase of pre-training; ``target_share`` of its questions use the target phrasing."""

    name: str
    seed: int
    steps: int
    target_share: float
    vocabulary: Vocabulary = PRETRAINING


def with_invented_modifiers(vocabulary: Vocabulary, seed: int) -> Vocabulary:
    """Add invented modifiers until they are ``INVENTED_SHARE`` of those drawn.

    There are only two dozen real ones: a policy memorizes them instead of copying what it reads.
    """
    rng = random.Random(seed)
    real = vocabulary.modifiers * 60
    count = round(len(real) * INVENTED_SHARE / (1 - INVENTED_SHARE))
    return replace(vocabulary, modifiers=real + tuple(invent(rng) for _ in range(count)))


GENERAL = Phase("general", 21, steps=1300, target_share=0.0)
MIXED = Phase(
    "mixed", 22, 1100, target_share=0.0118, vocabulary=with_invented_modifiers(PRETRAINING, 23)
)

Example = tuple[list[int], list[float]]
Batch = tuple[torch.Tensor, torch.Tensor]


class Demonstrations(IterableDataset[Batch]):
    """Padded batches of a phase's demonstrations, in an order that its seed determines."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, phase: Phase) -> None:
        self.tokenizer = tokenizer
        self.phase = phase

    def __iter__(self) -> Iterator[Batch]:
        rng = random.Random(self.phase.seed)
        phase = self.phase
        source = demonstrations(
            phase.seed, phase.target_share, INVENTED_SHARE, phase.vocabulary, weights=TARGET_WEIGHTS
        )
        examples = (encode(self.tokenizer, messages) for messages in source)
        fitting = (example for example in examples if len(example[0]) <= MAX_TOKENS)
        while True:
            block = sorted(islice(fitting, BATCH * 8), key=lambda example: len(example[0]))
            starts = list(range(0, len(block), BATCH))
            rng.shuffle(starts)
            for start in starts:
                yield pad(block[start : start + BATCH], self.tokenizer.pad_token_id)


def encode(tokenizer: PreTrainedTokenizerFast, messages: Messages) -> Example:
    """Tokenize a demonstration; the weights are those of each token in the loss."""
    encoded: Any = tokenizer.apply_chat_template(
        messages, return_dict=True, return_assistant_tokens_mask=True
    )
    weights = [1.0 if own else CONTEXT_WEIGHT for own in encoded["assistant_masks"]]
    return encoded["input_ids"], weights


def pad(examples: list[Example], padding: int) -> Batch:
    """Pad to a multiple of 32 tokens: few shapes keep a CPU's kernels cached."""
    width = -(-max(len(ids) for ids, _ in examples) // 32) * 32
    ids = torch.full((len(examples), width), padding)
    weights = torch.zeros((len(examples), width))
    for row, (tokens, counts) in enumerate(examples):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        weights[row, : len(counts)] = torch.tensor(counts)
    return ids, weights
