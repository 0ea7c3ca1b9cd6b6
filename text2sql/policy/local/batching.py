"""Continuous batching of conversations on a CPU, with a cache that is kept between turns.

A conversation owns a row of the cache while a turn is written and keeps it for its next turn
while there is room, so that only new tokens are fed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

from text2sql.policy.local.row_cache import RowCache

_FEED_WIDTH = 512  # prompt tokens of one row in one forward pass
_SHARED = 16  # tokens in common that let a row copy another's cache, or wait for it
_FEED_TOKENS = 4096  # prompt tokens of all rows in one forward pass


@dataclass(eq=False)
class Turn:
    """One turn to write: the conversation's tokens, how to sample, and the reply.

    ``reply`` has every token written; ``stopped`` says that the last one ends the turn.
    ``reused`` counts the prompt tokens that were already in the cache.
    """

    prompt: list[int]
    temperature: float
    top_p: float
    max_tokens: int
    stream: Random
    reply: list[int] = field(default_factory=list)
    stopped: bool = False
    cancelled: bool = False
    reused: int = 0

    @property
    def text_tokens(self) -> list[int]:
        """The reply without the token that ends it."""
        return self.reply[:-1] if self.stopped else self.reply


@dataclass(eq=False)
class _Row:
    """A row's bookkeeping: the tokens in the cache, those to feed next, and who uses it."""

    cached: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    turn: Turn | None = None
    prompt: list[int] = field(default_factory=list)
    last_used: int = 0


class Batch:
    """The turns in progress on one model, owned by one thread; ``step`` writes a token for each."""

    def __init__(self, model: Any, stop_tokens: Iterable[int], max_rows: int) -> None:
        self._stop = frozenset(stop_tokens)
        self._max_rows = max_rows
        self._queue: deque[Turn] = deque()
        self._rows: list[_Row] = []
        self._cache = RowCache(model)
        self._steps = 0

    def add(self, turn: Turn) -> None:
        """Queue a turn; it is complete when ``step`` returns it."""
        self._queue.append(turn)

    @property
    def busy(self) -> bool:
        """Whether any turn is queued or in progress."""
        return bool(self._queue) or any(row.turn for row in self._rows)

    def step(self) -> list[Turn]:
        """Start what fits, write one token for every running turn, return the finished."""
        self._steps += 1
        self._queue = deque(turn for turn in self._queue if not turn.cancelled)
        for row in self._rows:
            if row.turn and row.turn.cancelled:
                row.turn, row.waiting = None, []
        self._admit()
        with torch.no_grad():
            self._feed_prompts()
            self._close_gaps()
            return self._write_tokens()

    def _admit(self) -> None:
        """Give queued turns a row: first those whose conversation is cached."""
        for find_row in (self._own_row, self._free_row):
            left: deque[Turn] = deque()
            for turn in self._queue:
                row = find_row(turn)
                if row is None:
                    left.append(turn)
                    continue
                row.turn, row.prompt = turn, turn.prompt
                # One token must be fed, as its logits give the first token of the reply.
                length = min(_agreement(row.cached, turn.prompt), len(turn.prompt) - 1)
                self._set_cached(row, length)
            self._queue = left

    def _own_row(self, turn: Turn) -> _Row | None:
        """Find the idle row of this conversation: it matches beyond the last turn's prompt."""
        best, longest = None, 0
        for row in self._rows:
            known = len(row.prompt)
            if row.turn is None and turn.prompt[:known] == row.prompt:
                agreed = _agreement(row.cached, turn.prompt)
                if agreed > max(known, longest):
                    best, longest = row, agreed
        return best

    def _free_row(self, turn: Turn) -> _Row | None:
        """Return a new row, or the one that has been idle longest."""
        if len(self._rows) < self._max_rows:
            self._rows.append(_Row())
            return self._rows[-1]
        idle = (row for row in self._rows if row.turn is None)
        return min(idle, key=lambda row: row.last_used, default=None)

    def _set_cached(self, row: _Row, length: int) -> None:
        """Note that the cache has the first ``length`` tokens of the row's prompt."""
        row.cached, row.waiting = row.prompt[:length], row.prompt[length:]
        if row.turn:
            row.turn.reused = length

    def _feed_prompts(self) -> None:
        """Feed each new prompt except its last token; copy what another row already has."""
        while self._unread():
            for index in self._unread():
                self._copy_shared(index)
            indices = self._chosen(self._unread())
            rows = [self._rows[i] for i in indices]
            parts = [row.waiting[: min(_FEED_WIDTH, len(row.waiting) - 1)] for row in rows]
            if rows:
                self._cache.forward(indices, [len(row.cached) for row in rows], parts)
            for row, part in zip(rows, parts, strict=True):
                row.cached += part
                del row.waiting[: len(part)]

    def _unread(self) -> list[int]:
        return [i for i, row in enumerate(self._rows) if len(row.waiting) > 1]

    def _copy_shared(self, index: int) -> None:
        """Copy the longest prefix of the row's prompt that another row has already fed."""
        row = self._rows[index]
        head = row.prompt[: len(row.cached) + _SHARED]
        lengths = [
            _agreement(other.cached, row.prompt) if other.cached[: len(head)] == head else 0
            for other in self._rows
        ]
        length = min(max(lengths), len(row.prompt) - 1)
        if length > len(row.cached):
            self._cache.copy(lengths.index(max(lengths)), index, length)
            self._set_cached(row, length)

    def _chosen(self, unread: list[int]) -> list[int]:
        """Choose rows to feed at once, shortest first; only one of those with the same prefix."""
        chosen: list[int] = []
        for index in sorted(unread, key=lambda i: len(self._rows[i].waiting)):
            row = self._rows[index]
            width = min(_FEED_WIDTH, len(row.waiting) - 1)
            if chosen and width * (len(chosen) + 1) > _FEED_TOKENS:
                break
            head = row.prompt[: len(row.cached) + _SHARED]
            if not any(self._rows[i].prompt[: len(head)] == head for i in chosen):
                chosen.append(index)
        return chosen

    def _close_gaps(self) -> None:
        """Move running rows forward if a step would compute too many idle ones."""
        running = [i for i, row in enumerate(self._rows) if row.turn]
        count = len(running)
        if not running or running[-1] < count + count // 2:
            return
        idle = [i for i in range(count) if not self._rows[i].turn]
        behind = [i for i in running if i >= count]
        for i, j in zip(idle, behind, strict=True):
            self._rows[i], self._rows[j] = self._rows[j], self._rows[i]
        self._cache.swap(idle, behind)

    def _write_tokens(self) -> list[Turn]:
        """Feed one token of each running row and draw the next; idle rows between go along."""
        running = [(i, row.turn) for i, row in enumerate(self._rows) if row.turn]
        if not running:
            return []
        rows = self._rows[: running[-1][0] + 1]
        logits = self._cache.forward(
            list(range(len(rows))),
            [len(row.cached) for row in rows],
            [row.waiting or [0] for row in rows],
        )
        tokens = draw(logits[[i for i, _ in running]], [turn for _, turn in running])
        for (index, turn), token in zip(running, tokens, strict=True):
            row = rows[index]
            row.cached += row.waiting
            row.waiting = [token]
            turn.reply.append(token)
            turn.stopped = token in self._stop
            if turn.stopped or len(turn.reply) >= turn.max_tokens:
                row.turn, row.waiting, row.last_used = None, [], self._steps
        return [turn for index, turn in running if rows[index].turn is None]


def draw(logits: torch.Tensor, turns: Sequence[Turn]) -> list[int]:
    """Draw one token per row by inverse transform sampling; at temperature 0 the most probable.

    Each turn has its own random stream, so that its neighbours do not matter.
    """
    temperature = torch.tensor([[turn.temperature] for turn in turns])
    greedy = temperature[:, 0] <= 0
    if greedy.all():
        best: list[int] = logits.argmax(-1).tolist()
        return best
    scores = logits / torch.where(temperature > 0, temperature, 1.0)
    if any(turn.top_p < 1 for turn in turns):
        scores = _nucleus(scores, torch.tensor([[turn.top_p] for turn in turns]))
    reached = scores.softmax(-1).cumsum(-1, dtype=torch.float64)
    level = torch.tensor([[r.stream.random()] for r in turns], dtype=torch.float64)
    drawn = torch.searchsorted(reached, level * reached[:, -1:], right=True)[:, 0]
    tokens: list[int] = torch.where(greedy, logits.argmax(-1), drawn).tolist()
    return tokens


def _nucleus(scores: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the most probable tokens whose probabilities add up to ``top_p``, at least one."""
    ordered, order = scores.softmax(-1).sort(descending=True)
    outside = ordered.cumsum(-1) - ordered >= top_p
    outside[:, 0] = False
    return scores.masked_fill(outside.gather(-1, order.argsort(-1)), float("-inf"))


def _agreement(a: list[int], b: list[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle)
    return low
