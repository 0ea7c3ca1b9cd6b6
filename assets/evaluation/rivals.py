"""The champion at the gate: asked what the candidate is asked, where nobody did before."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from assets.rollouts.sets import RolloutSet
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from text2sql.common.json_files import write_json
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.candidate import RIVALS
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.evaluation.report.details import Before
from text2sql.evaluation.rollout_scores import PolicyRollouts, outcomes_of
from text2sql.evaluation.scores import TRAINED, Outcomes, Scores, compare
from text2sql.rollouts.origin import require_policy

CHAMPION = "champion"
"""How the champion's set of rollouts is called beside those of the base and the trained policy."""


def champion_set(
    root: ArtifactRoot,
    policy: PolicyResource,
    sets: dict[str, RolloutSet],
    warn: Callable[[str], None],
) -> dict[str, RolloutSet]:
    """Return the greedy rollouts that the champion should have beside the ``sets`` of both.

    Nothing where it was evaluated on these questions with these prompts, or is one of the two. A
    champion that cannot be asked is left out and ``warn`` is told why: the gate then says that it
    cannot compare.
    """
    champion, trained = champion_record(root.path), sets[f"{TRAINED} greedy"]
    asked = (champion.get("dataset"), champion.get("prompt_revision"))
    others = {one.policy_revision for one in sets.values()}
    if not champion or champion["revision"] in others:
        return {}
    if asked == (trained.dataset, trained.prompt_revision):
        return {}
    try:
        wanted = _like(trained, policy, champion)
    except Text2SqlError as error:
        warn(f"The champion {champion['policy']} is not asked beside the others: {error}")
        return {}
    return {f"{CHAMPION} greedy": wanted}


def _like(trained: RolloutSet, policy: PolicyResource, champion: dict[str, Any]) -> RolloutSet:
    """Describe the champion's rollouts on the same questions; raise where they say nothing."""
    from text2sql.agent.prompts import prompt_revision

    spec = champion["policy"]
    revision, prompts = policy.revision(spec), prompt_revision(policy.settings(spec))
    if revision != champion["revision"]:
        raise Text2SqlError(f"its revision is {revision}, and {champion['revision']} was promoted.")
    if prompts != trained.prompt_revision:
        raise Text2SqlError(
            f"its prompts are {prompts} and theirs {trained.prompt_revision}, as it was made for "
            "other agent settings (agent_config.json beside its weights, else the defaults)."
        )
    return replace(trained, policy=spec, policy_revision=revision, prompt_revision=prompts)


def write_rivals(
    folder: Path, sets: dict[str, RolloutSet], policies: list[PolicyRollouts]
) -> dict[str, Outcomes]:
    """Keep for the gate what other policies answered greedily; return it by their revisions."""
    found: dict[str, dict[str, Any]] = {}
    for one in policies:
        require_policy(one.name, one.revision, one.greedy)
        about = sets[f"{one.name} greedy"]
        outcomes = outcomes_of(one, about.samples)["greedy"]
        found[one.revision] = {"prompt_revision": about.prompt_revision, "greedy": outcomes}
    write_json(folder / RIVALS, found)
    return {revision: row["greedy"] for revision, row in found.items()}


def before(
    root: ArtifactRoot, scores: Scores, greedy: Outcomes, rivals: dict[str, Outcomes]
) -> Before | None:
    """Compare with the champion as it is now, where it is another one that was asked the same."""
    champion = champion_record(root.path)
    if not champion or champion["revision"] == scores.revisions[TRAINED]:
        return None
    asked = ("dataset", "prompt_revision")
    same = all(champion.get(name) == scores.provenance[name] for name in asked)
    old = champion.get("outcomes", {}) if same else rivals.get(champion["revision"])
    if old is None:
        return None
    both = [key for key in greedy if key in old]
    return Before(
        champion["training_run"],
        compare("greedy", "all", "", old, greedy, both),
        [key for key in both if greedy[key] > old[key]],
        [key for key in both if greedy[key] < old[key]],
    )
