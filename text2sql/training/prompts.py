"""The files of the training prompts: the questions, their gold results, ratings and provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from text2sql.common.artifacts import base_rollouts_file
from text2sql.common.counting import counted
from text2sql.common.json_files import read_if_there, read_rows, write_json, write_rows
from text2sql.common.provenance import fingerprint, read_record, sealed
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.rollouts.sets import RolloutSet
from text2sql.training.difficulty import Difficulty

PROMPTS, GOLDS, RATINGS = "prompts.jsonl", "golds.jsonl", "difficulty.jsonl"
ABOUT = "about.json"


def read_prompts(
    prompts: Path, golds: Path, needed: int = 0, setting: str = ""
) -> tuple[list[Question], dict[str, GoldResult]]:
    """Read both files.

    Raises Text2SqlError if a question has no gold result, or if there are fewer than ``needed``
    questions, as many as a step takes by the ``setting``.
    """
    questions = [Question.from_dict(row) for row in read_rows(prompts)]
    found = {gold.key: gold for gold in map(GoldResult.from_dict, read_rows(golds))}
    if missing := [question.key for question in questions if question.key not in found]:
        raise Text2SqlError(f"{golds} has no gold result for {missing[0]}.")
    if len(questions) < needed:
        raise Text2SqlError(
            f"{prompts} has {counted(len(questions), 'prompt')}; a step needs {needed}: loosen the "
            f"difficulty filter or set {setting} lower."
        )
    return questions, found


def sampled_set(root: Path) -> RolloutSet:
    """Return which rollouts the filter rates; raises Text2SqlError before they are sampled."""
    file = base_rollouts_file(root)
    record = read_if_there(file)
    if not record:
        raise Text2SqlError(f"There is no {file}: materialize base_rollouts first.")
    return RolloutSet.from_dict(record)


def write_prompts(
    folder: Path,
    rollouts: RolloutSet,
    prompts: Sequence[Question],
    golds: Mapping[str, GoldResult],
    ratings: Iterable[Difficulty],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Write what the filter kept; return what it depends on, and a fingerprint of its content."""
    write_rows(folder / RATINGS, map(asdict, ratings))
    kept = sorted(question.key for question in prompts)
    write_rows(folder / GOLDS, (golds[key].to_dict() for key in kept))
    write_rows(folder / PROMPTS, (question.to_dict() for question in prompts))
    content = [
        [q.key, q.db_id, q.question, q.evidence, q.sql, golds[q.key].digest] for q in prompts
    ]
    about = {
        **settings,
        "fingerprint": fingerprint(dataset=rollouts.dataset, prompts=content),
        "dataset": rollouts.dataset,
        "rollouts": rollouts.folder,
        "policy": rollouts.policy,
        "policy_revision": rollouts.policy_revision,
        "prompt_revision": rollouts.prompt_revision,
        "samples": rollouts.samples,
        "temperature": rollouts.sampling.temperature,
        "kept": len(prompts),
    }
    write_json(folder / ABOUT, sealed(about))
    return about


def prompt_files(folder: Path) -> tuple[Path, Path]:
    """Return the files of questions and gold results; raises Text2SqlError if one is missing."""
    files = (folder / PROMPTS, folder / GOLDS)
    for file in files:
        if not file.is_file():
            raise Text2SqlError(f"There is no {file}: materialize training_prompts first.")
    return files


def read_about(folder: Path) -> dict[str, Any]:
    """Return what the prompts depend on; raises Text2SqlError if it is missing or was edited."""
    about = read_record(folder / ABOUT)
    if not about:
        raise Text2SqlError(f"There is no {folder / ABOUT}: materialize training_prompts first.")
    return about
