"""Sets of rollouts: what one policy did on one split with one way of sampling.

A set's folder is named by all that it depends on, so equal work is found and never done twice.
In the folder each shard that sampled has a store of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.common.sources import rollout_version
from assets.common.versions import fingerprint
from resources.policy import PolicyResource
from text2sql.policy.base import Sampling
from text2sql.questions import Question
from text2sql.rollouts.cost import Estimate, estimate
from text2sql.rollouts.store import RolloutStore
from text2sql.training.difficulty import Tally

if TYPE_CHECKING:
    from text2sql.agent.settings import AgentSettings, Mode

POINTER = "rollouts.json"
"""The sets of rollouts that an evaluation is of, in its folder."""


@dataclass(frozen=True)
class RolloutSet:
    """One set of rollouts: what it depends on, how many there are, and where they lie.

    ``mode`` is the agent's where it is not the one that the policy was trained with.
    """

    policy: str
    policy_revision: str
    prompt_revision: str
    split: str
    dataset: str
    sampling: Sampling
    samples: int
    keys: tuple[str, ...]
    mode: Mode | None = None
    code: str = ""
    """The version of the code that shapes rollouts; empty in records of before it was noted."""

    @property
    def folder(self) -> str:
        """The folder's name under ``rollouts``, which says what the rollouts depend on."""
        parts = {"prompt": self.prompt_revision, "dataset": self.dataset}
        parts |= {"code": self.code} if self.code else {}
        version = fingerprint(**parts, sampling=asdict(self.sampling))
        kind = "sampled" if self.sampling.temperature else "greedy"
        kind = kind if self.mode is None else f"{self.mode.replace('_', '-')}-{kind}"
        return f"{self.split}-{kind}-{self.policy_revision}-{version}"

    def settings(self, policy: PolicyResource) -> AgentSettings:
        """Return the agent settings that the set is drawn with."""
        return settings_of(policy, self.policy, self.mode)

    def to_dict(self) -> dict[str, Any]:
        """Return the set as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> RolloutSet:
        """Read what ``to_dict`` wrote."""
        sampling = Sampling(**row["sampling"])
        return cls(**{**row, "sampling": sampling, "keys": tuple(row["keys"])})


def rollout_set(
    policy: PolicyResource,
    spec: str | Path | None,
    dataset: str,
    split: str,
    questions: Sequence[Question],
    sampling: Sampling,
    samples: int,
    mode: Mode | None = None,
) -> RolloutSet:
    """Describe the rollouts that a policy should have on some questions of a split."""
    from text2sql.agent.prompts import prompt_revision

    return RolloutSet(
        policy=str(spec or policy.base),
        policy_revision=policy.revision(spec),
        prompt_revision=prompt_revision(settings_of(policy, spec, mode)),
        split=split,
        dataset=dataset,
        sampling=sampling,
        samples=samples,
        keys=tuple(question.key for question in questions),
        mode=mode,
        code=rollout_version(),
    )


def settings_of(
    policy: PolicyResource, spec: str | Path | None, mode: Mode | None = None
) -> AgentSettings:
    """Return the agent settings that a policy was trained with, in another ``mode`` if given."""
    settings = policy.settings(spec)
    return settings if mode is None else replace(settings, mode=mode)


def tally_rollouts(root: Path, wanted: RolloutSet) -> Tally:
    """Count what became of the set's rollouts; they are read one by one and not kept."""
    tally, keys = Tally(), set(wanted.keys)
    for path in sorted((root / "rollouts" / wanted.folder).glob("*.jsonl")):
        for rollout in RolloutStore(path).scan():
            if rollout.key in keys and rollout.sample < wanted.samples:
                tally.take(rollout)
    return tally


def estimate_cost(root: Path, wanted: RolloutSet) -> Estimate:
    """Estimate what the missing rollouts cost, from what this policy's rollouts have cost."""
    tally = tally_rollouts(root, wanted)
    missing = len(wanted.keys) * wanted.samples - (len(tally) - tally.invalid)
    mark = f"-{wanted.policy_revision}-"
    folders = [folder for folder in sorted(root.glob("rollouts/*")) if mark in folder.name]
    return estimate(missing, folders)
