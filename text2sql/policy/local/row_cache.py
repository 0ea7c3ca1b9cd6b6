"""A key-value cache with independent rows, and the forward pass that reads and writes it.

Each row is one conversation with its own length. Padding is written after its end, where the
attention mask hides it until the row's next token replaces it; so a row's logits do not depend on
the other rows (except for float rounding).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

_BLOCK = 32  # lengths are rounded up to multiples, so that kernels and buffers are reused
_GROWTH = 128  # positions by which the cache grows


@dataclass
class _Pass:
    """Which rows and positions one forward pass writes, how many positions it reads.

    ``leading`` says that the rows are 0, 1, 2, …: they are read in place, without a copy.
    """

    rows: torch.Tensor
    positions: torch.Tensor
    span: int
    leading: bool
    capacity: tuple[int, int]


class _Layer(CacheLayerMixin):
    """Keys and values of one layer, shaped (rows, heads, positions, width)."""

    is_sliding = False
    now: _Pass

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys = key_states.new_zeros((0, key_states.shape[1], 0, key_states.shape[3]))
        self.values = value_states.new_zeros((0, value_states.shape[1], 0, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys = self._write(self.keys, key_states)
        self.values = self._write(self.values, value_states)
        return self._read(self.keys), self._read(self.values)

    def _write(self, states: torch.Tensor | None, new: torch.Tensor) -> torch.Tensor:
        assert states is not None
        states = _grown(states, self.now.capacity)
        states[self.now.rows[:, None], :, self.now.positions] = new.transpose(1, 2)
        return states

    def _read(self, states: torch.Tensor) -> torch.Tensor:
        visible = states[:, :, : self.now.span]
        if self.now.leading:
            return visible[: len(self.now.rows)]
        return visible.index_select(0, self.now.rows)

    def states(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values with room for at least ``rows`` rows."""
        assert self.keys is not None and self.values is not None
        self.keys = _grown(self.keys, (rows, 0))
        self.values = _grown(self.values, (rows, 0))
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.now.span, 0

    def get_seq_length(self) -> int:
        return self.now.span

    def get_max_length(self) -> int:
        return -1


class RowCache:
    """The cache of a causal language model whose layers all have full attention."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._layers = [_Layer() for _ in range(model.config.num_hidden_layers)]
        self._cache = Cache(layers=list(self._layers))
        self._device = model.device
        self._last_position = getattr(model.config, "max_position_embeddings", 1 << 30) - 1

    def forward(
        self, rows: list[int], lengths: list[int], tokens: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """Feed ``tokens[i]`` behind the first ``lengths[i]`` positions of row ``rows[i]``.

        Shorter token lists are padded on the right. Returns the logits (rows, vocabulary)
        behind the last column, on the CPU.
        """
        width = max(map(len, tokens))
        if width > 1:
            width = _round_up(width, _BLOCK)
        starts = torch.tensor(lengths, device=self._device)
        positions = starts[:, None] + torch.arange(width, device=self._device)
        end = max(lengths) + width
        now = _Pass(
            rows=torch.tensor(rows, device=self._device),
            positions=positions,
            span=_round_up(end, _BLOCK),
            leading=rows == list(range(len(rows))),
            capacity=(_round_up(max(rows) + 1, _BLOCK), _round_up(end, _GROWTH)),
        )
        for layer in self._layers:
            layer.now = now
        padded = [[*part, *[0] * (width - len(part))] for part in tokens]
        reach = torch.arange(now.span, device=self._device)
        output = self._model(
            input_ids=torch.tensor(padded, device=self._device),
            attention_mask=reach <= positions[:, None, :, None],
            position_ids=positions.clamp(max=self._last_position),
            cache=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1].float().cpu()
        return logits

    def swap(self, left: list[int], right: list[int]) -> None:
        """Exchange rows pairwise."""
        for layer in self._layers:
            for states in layer.states(max(left + right) + 1):
                states[left + right] = states[right + left]

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` positions of one row to another."""
        for layer in self._layers:
            for states in layer.states(target + 1):
                states[target, :, :length] = states[source, :, :length]


def _grown(states: torch.Tensor, capacity: tuple[int, int]) -> torch.Tensor:
    """Return the states with room for ``capacity`` rows and positions."""
    rows, heads, length, width = states.shape
    if rows >= capacity[0] and length >= capacity[1]:
        return states
    grown = states.new_zeros((max(rows, capacity[0]), heads, max(length, capacity[1]), width))
    grown[:rows, :, :length] = states
    return grown


def _round_up(number: int, block: int) -> int:
    return -(-number // block) * block
