"""The sets of rollouts that assets need, and what they have and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assets.common.sources import rollout_version
from resources.policy import PolicyResource
from text2sql.common.artifacts import rollouts_folder
from text2sql.policy.base import Sampling
from text2sql.questions import Question
from text2sql.rollouts.cost import Estimate, estimate
from text2sql.rollouts.sets import RolloutSet
from text2sql.rollouts.store import RolloutStore
from text2sql.training.difficulty import Tally

if TYPE_CHECKING:
    from text2sql.agent.settings import AgentSettings, Mode


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


def tally_rollouts(root: Path, rollouts: RolloutSet) -> Tally:
    """Count the outcomes of a set; its rollouts are read one by one and not kept."""
    tally, keys = Tally(), set(rollouts.keys)
    for path in rollouts.files(root):
        for rollout in RolloutStore(path).scan():
            if rollout.key in keys and rollout.sample < rollouts.samples:
                tally.take(rollout)
    return tally


def estimate_cost(root: Path, rollouts: RolloutSet) -> Estimate:
    """Estimate the cost of the missing rollouts from the cost of this policy's earlier ones."""
    tally = tally_rollouts(root, rollouts)
    missing = len(rollouts.keys) * rollouts.samples - (len(tally) - tally.invalid)
    mark = f"-{rollouts.policy_revision}-"
    folders = [f for f in sorted(rollouts_folder(root).glob("*")) if mark in f.name]
    return estimate(missing, folders)
