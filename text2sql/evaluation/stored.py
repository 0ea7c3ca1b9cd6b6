"""Stored evaluations: where each lies below the artifact root, and the files that it wrote."""

from __future__ import annotations

from pathlib import Path

from text2sql.common.artifacts import evaluation_folder, held_out_folder, training_folder
from text2sql.common.json_files import read_if_there
from text2sql.common.provenance import file_version
from text2sql.errors import Text2SqlError, did_you_mean
from text2sql.evaluation.scores import Scores

ROLLOUTS = "rollouts.json"
"""The sets of rollouts that an evaluation is of."""
SCORES, OUTCOMES = "scores.json", "outcomes.json"
RIVALS = "rivals.json"
"""What other policies answered greedily, by their revisions."""
PREVIOUS = "previous.json"
"""The greedy accuracy that the last evaluation before this one gave."""
NOTE = "lineage.json"
"""Which run made an evaluation, and a version of each of its files, for ``text2sql lineage``."""


def run_folder(root: Path, run: str) -> Path:
    """Return the folder of a training run's evaluation; raise Text2SqlError without one."""
    known = _evaluated(evaluation_folder(root))
    if run not in known:
        raise Text2SqlError(
            f"No evaluation of a training run '{run}' below {root}."
            + (did_you_mean(run, known) or _next_step(root, run))
            + (f" Evaluated: {', '.join(known)}." if known else "")
        )
    return evaluation_folder(root, run)


def _next_step(root: Path, run: str) -> str:
    trained = {path.name for path in training_folder(root).glob("*") if path.is_dir()}
    if run in trained:
        return " It was trained: run the job evaluation for it."
    return did_you_mean(run, trained) or f" Train it with text2sql train {run}, or name another."


def find_evaluation(root: Path, name: str) -> Path:
    """Return the folder of an evaluation: a training run's, or one on a held-out split.

    Raises Text2SqlError, naming all evaluations, for any other name.
    """
    held_out = _evaluated(held_out_folder(root))
    if name in held_out and name not in _evaluated(evaluation_folder(root)):
        return held_out_folder(root, name)
    try:
        return run_folder(root, name)
    except Text2SqlError as error:
        if not held_out:
            raise
        raise Text2SqlError(f"{error} On held-out splits: {', '.join(held_out)}.") from error


def read_scores(root: Path, run: str) -> Scores:
    """Return the scores of a training run; raise Text2SqlError where it has none."""
    row = read_if_there(evaluation_folder(root, run) / SCORES)
    if not row:
        raise Text2SqlError(f"The training run {run} has no scores: materialize dev_scores first.")
    return Scores.from_dict(row)


def last_evaluated(root: Path) -> str:
    """Return the training run with the newest scores; raise Text2SqlError without any."""
    files = evaluation_folder(root).glob(f"*/{SCORES}")
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    if newest is None:
        raise Text2SqlError("No training run has been evaluated: materialize dev_scores first.")
    return newest.parent.name


def file_versions(folder: Path) -> dict[str, str]:
    """Return a version of each file of an evaluation that numbers come from."""
    names = (ROLLOUTS, SCORES, OUTCOMES, RIVALS)
    return {name: file_version(folder / name) for name in names if (folder / name).is_file()}


def _evaluated(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob(f"*/{SCORES}"))
