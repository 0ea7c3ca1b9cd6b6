"""Drawing the next token of each of several requests from a model's logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from text2sql.policy.local.batching import Request


def draw(logits: torch.Tensor, requests: Sequence[Request]) -> list[int]:
    """Draw one token a row by inverting its distribution function; at temperature 0 the best.

    Each request draws from a stream of its own, so that neighbours do not matter.
    """
    temperature = torch.tensor([[request.temperature] for request in requests])
    greedy = temperature[:, 0] <= 0
    if greedy.all():
        best: list[int] = logits.argmax(-1).tolist()
        return best
    scores = logits / torch.where(temperature > 0, temperature, 1.0)
    if any(request.top_p < 1 for request in requests):
        scores = _nucleus(scores, torch.tensor([[request.top_p] for request in requests]))
    reached = scores.softmax(-1).cumsum(-1, dtype=torch.float64)
    level = torch.tensor([[r.stream.random()] for r in requests], dtype=torch.float64)
    drawn = torch.searchsorted(reached, level * reached[:, -1:], right=True)[:, 0]
    tokens: list[int] = torch.where(greedy, logits.argmax(-1), drawn).tolist()
    return tokens


def _nucleus(scores: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Leave the most probable tokens whose probabilities reach ``top_p``, at least one."""
    ordered, order = scores.softmax(-1).sort(descending=True)
    outside = ordered.cumsum(-1) - ordered >= top_p
    outside[:, 0] = False
    return scores.masked_fill(outside.gather(-1, order.argsort(-1)), float("-inf"))
