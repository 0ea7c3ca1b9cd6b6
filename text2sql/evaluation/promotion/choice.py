"""Who answers where the user named nobody: the local project's champion, or the pocket policy."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass

from text2sql.common.artifacts import artifact_root
from text2sql.evaluation.promotion.champion import ADOPTED_RUN, Champion, find_champion, named
from text2sql.policy.open import POCKET, policy_directory
from text2sql.policy.revision import directory_revision

_log = logging.getLogger(__name__)

POCKET_USE = "it knows template English on small databases; a stand-in, not for real questions"


@dataclass(frozen=True)
class Choice:
    """A policy's specification, what to call it, what it is good for, and the revision it must
    have (empty where any will do)."""

    spec: str
    title: str = ""
    use: str = ""
    revision: str = ""


def choose(spec: str | None) -> Choice:
    """Return what the user named, else the champion of the project around, else the pocket policy.

    Raises Text2SqlError where there is a champion that cannot be used.
    """
    if spec == POCKET:
        return Choice(POCKET, "the pocket policy", POCKET_USE)
    if spec is not None:
        return Choice(spec)
    champion = find_champion(artifact_root())
    _log.debug("champion of %s: %s", artifact_root(), champion.policy if champion else "none")
    if champion is None:
        return Choice(POCKET, "the pocket policy", POCKET_USE)
    return Choice(str(champion.policy), _title(champion), _use(champion), champion.revision)


def _title(champion: Champion) -> str:
    name = named(asdict(champion)).removeprefix("the ")
    return f"the champion of {artifact_root()}, {name}"


def _use(champion: Champion) -> str:
    use = f"greedy accuracy on its dev questions, in percent: {champion.greedy}"
    if champion.training_run == ADOPTED_RUN:
        use = "nothing here has evaluated it"
    pocket = policy_directory(POCKET)
    if pocket is not None and directory_revision(pocket) == champion.base_revision:
        use += f"; trained from the pocket policy: {POCKET_USE}"
    return use
