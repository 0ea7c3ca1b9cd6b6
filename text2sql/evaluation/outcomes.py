"""What became of each question by setting: greedy, a vote, pass@k and the mean of k rollouts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean

from text2sql.evaluation.scores import SINGLE_TURN, Outcomes
from text2sql.judge.verdicts import Verdict
from text2sql.rollouts.draw import vote_of
from text2sql.rollouts.packed import by_question
from text2sql.rollouts.store import Rollout

SAMPLED = "sampled"
_SAMPLED = ("vote", "pass", "mean")


@dataclass(frozen=True)
class PolicyRollouts:
    """What one policy did on a split: one greedy rollout a question, and k sampled ones.

    ``revision`` is the policy's, ``dataset`` the fingerprint of what it was asked, empty where
    nobody knows. ``single_turn`` are greedy rollouts without tools: the schema, one reply.
    ``asked`` are the keys that were to be ``sampled``, and those for ``single-turn``: a question
    among them without any rollout is missing. Without it only rollouts say what was asked.
    """

    name: str
    revision: str
    greedy: Sequence[Rollout]
    sampled: Sequence[Rollout] = ()
    dataset: str = ""
    single_turn: Sequence[Rollout] = ()
    asked: Mapping[str, Collection[str]] = field(default_factory=dict)

    def rollouts(self) -> Iterator[Rollout]:
        """Yield all rollouts of all settings; the agent's first, then the single-turn ones."""
        return chain(self.agentic(), self.single_turn)

    def agentic(self) -> Iterator[Rollout]:
        """Yield the greedy and the sampled rollouts: those of the agent as it is."""
        return chain(self.greedy, self.sampled)


def outcomes_of(policy: PolicyRollouts, k: int) -> dict[str, Outcomes]:
    """Return what became of each question by setting: ``greedy``, ``vote@k`` and so on."""
    found: dict[str, Outcomes] = {
        "greedy": {rollout.key: is_right(rollout) for rollout in valid_ones(policy.greedy)}
    }
    if policy.single_turn or policy.asked.get(SINGLE_TURN):
        found[SINGLE_TURN] = {one.key: is_right(one) for one in valid_ones(policy.single_turn)}
    if policy.sampled or policy.asked.get(SAMPLED):
        votes, passes, means = (found.setdefault(f"{name}@{k}", {}) for name in _SAMPLED)
        for key, group in complete(policy.sampled, k):
            right = [is_right(rollout) for rollout in group]
            votes[key], passes[key], means[key] = _vote_is_right(group), max(right), fmean(right)
    return found


def complete(sampled: Sequence[Rollout], k: int) -> Iterator[tuple[str, list[Rollout]]]:
    """Yield the first ``k`` valid rollouts of every question that has so many."""
    for key, group in by_question(sampled):
        if len(group) >= k:
            yield key, group[:k]


def is_right(rollout: Rollout) -> float:
    """Return 1.0 for a rollout that gave the gold result, else 0.0."""
    return 1.0 if rollout.verdict == Verdict.MATCH else 0.0


def valid_ones(rollouts: Iterable[Rollout]) -> Iterator[Rollout]:
    """Yield the rollouts that the infrastructure did not spoil."""
    return (rollout for rollout in rollouts if rollout.valid)


def _vote_is_right(group: Sequence[Rollout]) -> float:
    winner = vote_of(group).index
    return max((is_right(rollout) for rollout in group if rollout.sample == winner), default=0.0)
