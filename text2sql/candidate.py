"""A training run as a candidate for champion: what it is, what it scored, whom it is up against."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql.comparison import run_folder
from text2sql.errors import Text2SqlError
from text2sql.held_out import require_selection
from text2sql.scores import TRAINED, Outcomes, Scores

SETTING = "greedy"
"""What promotion looks at: one reply at temperature 0 to every dev question."""


@dataclass(frozen=True)
class Candidate:
    """A training run's policy with its evaluation.

    ``outcomes`` say of each dev question whether the greedy reply was right; ``dataset`` and
    ``prompt_revision`` name what was asked, and how.
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

    Raises Text2SqlError where it was not trained or not evaluated, where a file cannot be read,
    where the evaluation is of other weights than those that the run has now, and where it is of
    a split that is held out.
    """
    folder = run_folder(root, run)
    training = _read(root / "training" / run / "training.json")
    try:
        scores = Scores.from_dict(_read(folder / "scores.json"))
        outcomes = _read(folder / "outcomes.json")[SETTING]
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
    """The champion as a candidate is compared with it: on what it was evaluated, with what."""

    training_run: str
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
    """Return the champion as the candidate's rival, None where there is no champion.

    It is taken as it was promoted; where that was on another dataset or with other prompts, and
    its training run has been evaluated again since, with the same weights, that counts instead.
    """
    if not champion:
        return None
    promoted = Rival(
        champion["training_run"],
        champion["revision"],
        champion.get("dataset", ""),
        champion.get("prompt_revision", ""),
        champion.get("outcomes", {}),
    )
    again = _evaluated_again(root, promoted) if promoted.differs(candidate) else None
    return again if again and not again.differs(candidate) else promoted


def _evaluated_again(root: Path, promoted: Rival) -> Rival | None:
    try:
        now = read_candidate(root, promoted.training_run)
    except Text2SqlError:
        return None  # the run's files are gone or spoilt: what was promoted stays what is known
    if now.revision != promoted.revision:
        return None
    return Rival(now.training_run, now.revision, now.dataset, now.prompt_revision, now.outcomes)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Text2SqlError(f"There is no {file}: train and evaluate this run first.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Text2SqlError(f"{file} cannot be read: {reason}.") from error
    if not isinstance(found, dict):
        raise Text2SqlError(f"{file} must hold a JSON object.")
    return found
