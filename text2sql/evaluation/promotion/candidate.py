"""A training run as a candidate for champion: its policy, its scores, and its rival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from text2sql.common.artifacts import training_record_file
from text2sql.common.json_files import read_if_there, read_object
from text2sql.errors import Text2SqlError
from text2sql.evaluation.held_out import require_selection
from text2sql.evaluation.promotion.champion import run_of
from text2sql.evaluation.scores import TRAINED, Outcomes, Scores
from text2sql.evaluation.stored import OUTCOMES, RIVALS, SCORES, run_folder

SETTING = "greedy"
"""What promotion looks at: one reply at temperature 0 to every dev question."""


@dataclass(frozen=True)
class Candidate:
    """A training run's policy with its evaluation.

    ``outcomes`` has for each dev question whether the greedy reply was right.
    """

    training_run: str
    policy: str
    revision: str
    base_revision: str
    scores: Scores
    outcomes: Outcomes

    @property
    def dataset(self) -> str:
        """The fingerprint of the dataset that it was evaluated on."""
        return self.scores.provenance.get("dataset", "")

    @property
    def prompt_revision(self) -> str:
        """The revision of the prompts that it was evaluated with."""
        return self.scores.provenance.get("prompt_revision", "")

    def to_record(self) -> dict[str, Any]:
        """Return what a champion's record says of it."""
        shown = [one for one in self.scores.scores if (one.policy, one.part) == (TRAINED, "all")]
        return {
            "policy": self.policy,
            "revision": self.revision,
            "training_run": self.training_run,
            "base_revision": self.base_revision,
            "dataset": self.dataset,
            "prompt_revision": self.prompt_revision,
            "greedy": str(self.scores.find(TRAINED, SETTING)),
            "scores": {one.setting: str(one) for one in shown},
            "outcomes": self.outcomes,
        }


def read_candidate(root: Path, run: str) -> Candidate:
    """Read a training run's policy and evaluation below an artifact root.

    Raises Text2SqlError where it was not trained or not evaluated, a file cannot be read, the
    weights have changed since the evaluation, or the split is held out.
    """
    folder = run_folder(root, run)
    advice = "Materialize {} for it again."
    training = read_object(training_record_file(root, run), advice.format("grpo_policy"))
    try:
        scores = Scores.from_dict(read_object(folder / SCORES, advice.format("dev_scores")))
        outcomes = read_object(folder / OUTCOMES, advice.format("dev_scores"))[SETTING]
        policy, revision = str(training["policy"]), str(training["policy_revision"])
        base, evaluated = str(training["base_revision"]), scores.revisions[TRAINED]
    except (KeyError, TypeError) as error:
        raise Text2SqlError(
            f"The files of the training run {run} lack {error}: materialize grpo_policy and "
            "dev_scores for it again."
        ) from error
    if evaluated != revision:
        raise Text2SqlError(
            f"The scores of the training run {run} are of other weights ({evaluated}) than it has "
            f"now ({revision}): materialize dev_rollouts and dev_scores for it again."
        )
    require_selection(root, scores.split, scores.provenance.get("dataset", ""))
    return Candidate(run, policy, revision, base, scores, outcomes)


@dataclass(frozen=True)
class Rival:
    """The champion as a candidate is compared with it, with its answers to the dev questions.

    ``name`` is what sentences call it.
    """

    name: str
    revision: str
    dataset: str
    prompt_revision: str
    outcomes: Outcomes

    def differs(self, candidate: Candidate) -> str:
        """Say why the two evaluations cannot be compared; empty where they can."""
        parts = (
            ("dataset", self.dataset, candidate.dataset),
            ("prompts", self.prompt_revision, candidate.prompt_revision),
        )
        return " and ".join(
            f"{name} {mine or 'unknown'} and not {its or 'unknown'}"
            for name, mine, its in parts
            if mine != its or not mine
        )


def rival_of(root: Path, champion: Mapping[str, Any], candidate: Candidate) -> Rival | None:
    """Return the champion as the candidate's rival, None without a champion.

    Its evaluation at its promotion counts. If that used another dataset or other prompts, or the
    champion was adopted, its answers from the candidate's own evaluation count instead (as the
    base, or asked beside it), or else a newer evaluation of its training run with equal weights.
    """
    if not champion:
        return None
    run = run_of(champion)
    promoted = Rival(
        f"the champion {run}" if run else f"the adopted champion {champion['policy']}",
        champion["revision"],
        champion.get("dataset", ""),
        champion.get("prompt_revision", ""),
        champion.get("outcomes", {}),
    )
    if promoted.differs(candidate):
        for found in (
            _asked_beside(root, promoted, candidate),
            _evaluated_again(root, promoted, champion["training_run"]),
        ):
            if found and not found.differs(candidate):
                return found
    return promoted


def _asked_beside(root: Path, promoted: Rival, candidate: Candidate) -> Rival | None:
    """Return what the champion answered when the candidate was evaluated."""
    file = run_folder(root, candidate.training_run) / RIVALS
    found = read_if_there(file, "Materialize dev_scores for it again.").get(promoted.revision)
    if found is None:
        return None
    try:
        prompts, outcomes = str(found["prompt_revision"]), dict(found[SETTING])
    except (KeyError, TypeError, ValueError) as error:
        raise Text2SqlError(
            f"{file} is invalid ({error}): materialize dev_scores for it again."
        ) from error
    return replace(promoted, dataset=candidate.dataset, prompt_revision=prompts, outcomes=outcomes)


def _evaluated_again(root: Path, promoted: Rival, run: str) -> Rival | None:
    """Return a newer evaluation of the champion's training run."""
    try:
        now = read_candidate(root, run)
    except Text2SqlError:
        return None  # gone or damaged: the evaluation at the promotion is all that is known
    if now.revision != promoted.revision:
        return None
    dataset, prompts = now.dataset, now.prompt_revision
    return replace(promoted, dataset=dataset, prompt_revision=prompts, outcomes=now.outcomes)
