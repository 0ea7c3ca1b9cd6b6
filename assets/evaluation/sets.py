"""The sets of rollouts that an evaluation is of: where they lie, and what each policy did."""

from __future__ import annotations

from assets.data.stored import load_current
from assets.evaluation.rivals import CHAMPION
from assets.rollouts.sets import RolloutSet
from resources.paths import ArtifactRoot
from text2sql.evaluation.report.details import Evaluated
from text2sql.evaluation.rollout_scores import SAMPLED, PolicyRollouts
from text2sql.evaluation.scores import SINGLE_TURN
from text2sql.rollouts.located import LocatedRollouts, read_located

SETTINGS = ("greedy", SAMPLED, SINGLE_TURN)


def datasets_of(root: ArtifactRoot, sets: dict[str, RolloutSet]) -> dict[str, str]:
    """Name the dataset of each set of rollouts and the current one: all must be the same."""
    found = {f"{name} rollouts": drawn.dataset for name, drawn in sets.items()}
    return found | {"the current dataset": load_current(root.path).fingerprint}


def locate(root: ArtifactRoot, sets: dict[str, RolloutSet], name: str) -> Evaluated:
    """Read a policy's rollouts of each setting, and where each lies."""
    found = {
        setting: read_located(
            (root.path / "rollouts" / one.folder).glob("*.jsonl"),
            one.keys,
            one.samples,
        )
        for setting in SETTINGS
        if (one := sets.get(f"{name} {setting}"))
    }
    return Evaluated(name, *(found.get(s, LocatedRollouts()) for s in SETTINGS))


def policy_rollouts(sets: dict[str, RolloutSet], found: Evaluated) -> PolicyRollouts:
    """Return a policy's rollouts as they are scored, with what was asked of it."""
    about = sets[f"{found.name} greedy"]
    greedy, sampled, once = (located.rollouts for located in found.sets.values())
    asked = {s: one.keys for s in SETTINGS if (one := sets.get(f"{found.name} {s}"))}
    revision, dataset = about.policy_revision, about.dataset
    return PolicyRollouts(found.name, revision, greedy, sampled, dataset, once, asked)


def champion_rollouts(root: ArtifactRoot, sets: dict[str, RolloutSet]) -> list[PolicyRollouts]:
    """Return what the champion did, where it was asked beside the two."""
    if f"{CHAMPION} greedy" not in sets:
        return []
    return [policy_rollouts(sets, locate(root, sets, CHAMPION))]
