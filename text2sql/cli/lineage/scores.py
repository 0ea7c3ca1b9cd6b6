"""Accuracies: the evaluations that reported a number, and what each was made from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from text2sql.cli.lineage.chain import Link, facts_of
from text2sql.cli.lineage.runs import commit_of
from text2sql.common.artifacts import evaluation_folder, evaluations_folder, held_out_folder
from text2sql.common.json_files import read_if_there
from text2sql.common.provenance import file_version, read_record
from text2sql.errors import Text2SqlError
from text2sql.evaluation.scores import BASE, TRAINED, Score, Scores
from text2sql.evaluation.slices import ALL
from text2sql.evaluation.stored import NOTE, ROLLOUTS, SCORES

_ACCURACY = re.compile(r"(\d{1,3}(?:\.\d+)?)%|(\d{1,3}\.\d+)")


@dataclass(frozen=True)
class Reported:
    """A score that an evaluation of a training run reported, and the evaluation's folder."""

    run: str
    folder: Path
    score: Score

    def __str__(self) -> str:
        """Name the policy, the setting, the part and the number with its interval."""
        score = self.score
        part = score.part if not score.name else f"{score.part} {score.name}"
        return f"{score.policy} {score.setting}, {part}: {score}"


def percent_of(text: str) -> str | None:
    """Return the number in an accuracy such as ``63.3`` or ``63%``; None if it is not one."""
    found = _ACCURACY.fullmatch(text.strip())
    return (found[1] or found[2]) if found else None


def find_reported(root: Path, number: str) -> list[Reported]:
    """Return the scores that equal ``number`` in percent, to its digits.

    Scores of parts count only if no score of a whole split does.
    """
    digits = len(number.partition(".")[2])
    shown = f"{float(number):.{digits}f}"
    found = [
        Reported(run, folder, score)
        for folder, run in evaluations(root)
        if (folder / SCORES).exists()
        for score in _read_scores(folder / SCORES).scores
        if score.n and f"{100 * score.value:.{digits}f}" == shown
    ]
    return [one for one in found if one.score.part == ALL] or found


def evaluations(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folder of each evaluation that was started, and its training run."""
    for file in sorted(evaluations_folder(root).glob(f"*/{ROLLOUTS}")):
        yield file.parent, file.parent.name
    for file in sorted(held_out_folder(root).glob(f"*/{ROLLOUTS}")):
        run = read_if_there(file.parent / NOTE).get("training_run")
        yield file.parent, str(run or file.parent.name)


def _read_scores(file: Path) -> Scores:
    """Read the scores of an evaluation; raise Text2SqlError if they are missing or invalid."""
    row = read_record(file)
    if not row:
        raise Text2SqlError(f"{file} is missing.")
    try:
        return Scores.from_dict(row)
    except (KeyError, TypeError, AttributeError) as error:
        raise Text2SqlError(f"{file} is invalid: {error}; evaluate the run again.") from error


def greedy_of(root: Path, run: str) -> str:
    """Return a run's greedy accuracy in percent, empty if it was not evaluated."""
    try:
        score = _read_scores(evaluation_folder(root, run) / SCORES).find(TRAINED, "greedy")
    except Text2SqlError:
        return ""
    return f"{100 * score.value:.1f}" if score else ""


def scores_link(folder: Path) -> tuple[Link, str]:
    """Return an evaluation, and the revision of the policy that was evaluated."""
    link = Link("evaluation", folder.name)
    scores: Scores | None = None
    with link.noting():
        scores = _read_scores(folder / SCORES)
    note = link.record(folder / NOTE)
    for name, version in note.get("files", {}).items():
        with link.noting():
            if file_version(folder / name) != version:
                link.problems.append(f"{folder / name} was changed after the evaluation.")
    if scores is None:
        return link, ""
    link.facts = facts_of(scores.provenance, "split")
    for setting in ("greedy", f"vote@{scores.k}"):
        base, trained = (scores.find(policy, setting) for policy in (BASE, TRAINED))
        if base and trained:
            link.facts[setting] = f"{base} (base), {trained} (trained)"
    link.facts["policy revision"] = scores.revisions.get(TRAINED)
    link.facts["base revision"] = scores.revisions.get(BASE)
    named = ("dataset", "prompt_revision", "sampling", "known_issues", "code_version")
    link.facts |= facts_of(scores.provenance, *named, "dagster_run") | {"commit": commit_of(note)}
    return link, scores.revisions.get(TRAINED, "")
