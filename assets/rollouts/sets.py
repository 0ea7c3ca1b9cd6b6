"""The sets of rollouts that assets need, and what they have and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assets.common.sources import rollout_version
from resources.policy import PolicyResource
from text2sql.policy.base import Sampling
from text2sql.questions import Question
from text2sql.rollouts.sets import RolloutSet

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
