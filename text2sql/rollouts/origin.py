"""Rollouts of another policy or dataset never mix into a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from text2sql.errors import Text2SqlError
from text2sql.rollouts.store import Rollout


def require_policy(name: str, revision: str, *sets: Iterable[Rollout]) -> None:
    """Raise Text2SqlError where a rollout is not of this policy revision, or is drawn otherwise.

    In each mode all have the same prompts, in each set the same sampling. The error names both
    revisions and the first rollout that does not belong.
    """
    prompts: dict[str, str] = {}
    for rollouts in sets:
        sampling: dict[str, Any] | None = None
        for rollout in rollouts:
            first = prompts.setdefault(rollout.mode, rollout.prompt_revision)
            sampling = rollout.sampling if sampling is None else sampling
            found = rollout.policy_revision, rollout.prompt_revision, rollout.sampling
            if found != (revision, first, sampling):
                raise Text2SqlError(_stranger(name, rollout, revision, first, sampling))


def _stranger(
    name: str, rollout: Rollout, revision: str, prompts: str, sampling: Mapping[str, Any]
) -> str:
    """Say what sets a rollout apart from the others of its policy."""
    place = f"The rollout {rollout.key}, sample {rollout.sample}, of the policy '{name}'"
    if rollout.policy_revision != revision:
        return (
            f"{place} is of the policy revision {rollout.policy_revision}, not {revision}: "
            "score each policy's rollouts apart."
        )
    what, mine, others = (
        ("prompt revision", rollout.prompt_revision, prompts)
        if rollout.prompt_revision != prompts
        else ("sampling", rollout.sampling, sampling)
    )
    return f"{place} is of the {what} {mine}, others are of {others}: score them apart."


def require_modes(name: str, agentic: Iterable[Rollout], single_turn: Iterable[Rollout]) -> None:
    """Raise Text2SqlError where the agent's settings and the single-turn one are mixed.

    The agent's rollouts are all of one mode, the policy's own; those of the other setting are
    single-turn.
    """
    modes = {rollout.mode for rollout in agentic}
    others = {rollout.mode for rollout in single_turn}
    if len(modes) > 1 or others - {"single_turn"}:
        raise Text2SqlError(
            f"The rollouts of the policy '{name}' mix settings: the agent's are "
            f"{', '.join(sorted(modes)) or 'none'}, the single-turn ones "
            f"{', '.join(sorted(others)) or 'none'}; score each setting's rollouts apart."
        )


def require_dataset(fingerprints: dict[str, str]) -> None:
    """Raise Text2SqlError where fingerprints of a dataset differ; the keys say whose they are."""
    known = {name: found for name, found in fingerprints.items() if found}
    different = dict(zip(known.values(), known, strict=True))
    if len(different) > 1:
        said = ", ".join(f"{found} ({name})" for found, name in different.items())
        raise Text2SqlError(
            f"These are numbers of different datasets: {said}. Evaluate both on the same one."
        )
