"""What a rollout store holds."""

from pathlib import Path

from text2sql.rollouts.store import Rollout, RolloutStore


def latest(path: Path) -> list[Rollout]:
    """Return the whole rollouts of a store; of one that was drawn again the last."""
    found: dict[tuple, Rollout] = {}
    for rollout in RolloutStore(path).scan(transcripts=True):
        place = (rollout.key, rollout.sample, *rollout.drawn_as)
        found.pop(place, None)
        found[place] = rollout
    return list(found.values())
