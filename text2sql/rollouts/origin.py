"""Checks that the rollouts behind one number belong together: policy, settings, dataset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from text2sql.errors import Text2SqlError
from text2sql.rollouts.store import Rollout


def require_policy(name: str, revision: str, *sets: Iterable[Rollout]) -> None:
    """Raise Text2SqlError if a rollout is of another policy revision or was drawn differently.

    All of a mode must have the same prompts, all of a set the same sampling.
    """
    prompts: dict[str, str] = {}
    for rollouts in sets:
        sampling: dict[str, Any] | None = None
        for rollout in rollouts:
            first = prompts.setdefault(rollout.mode, rollout.prompt_revision)
            sampling = rollout.sampling if sampling is None else sampling
            for what, found, expected in (
                ("policy revision", rollout.policy_revision, revision),
                ("prompt revision", rollout.prompt_revision, first),
                ("sampling", rollout.sampling, sampling),
            ):
                if found != expected:
                    raise Text2SqlError(
                        f"The rollout {rollout.key}, sample {rollout.sample}, of the policy "
                        f"'{name}' has the {what} {found}, not {expected}: score them "
                        "separately."
                    )


def require_modes(name: str, agentic: Iterable[Rollout], single_turn: Iterable[Rollout]) -> None:
    """Raise Text2SqlError unless the agent's rollouts have one mode, the others single-turn."""
    modes = {rollout.mode for rollout in agentic}
    others = {rollout.mode for rollout in single_turn}
    if len(modes) > 1 or others - {"single_turn"}:
        raise Text2SqlError(
            f"The rollouts of the policy '{name}' mix settings: the agent's are "
            f"{', '.join(sorted(modes)) or 'none'}, the single-turn ones "
            f"{', '.join(sorted(others)) or 'none'}; score each setting's rollouts separately."
        )


def require_dataset(fingerprints: dict[str, str]) -> None:
    """Raise Text2SqlError if dataset fingerprints differ; the keys say whose they are."""
    known = {name: found for name, found in fingerprints.items() if found}
    different = dict(zip(known.values(), known, strict=True))
    if len(different) > 1:
        named = ", ".join(f"{found} ({name})" for found, name in different.items())
        raise Text2SqlError(
            f"These numbers are of different datasets: {named}. Evaluate both on the same one."
        )
