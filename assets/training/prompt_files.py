"""The files of the training prompts: what is kept, its gold results, the ratings, the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from resources.paths import ArtifactRoot
from text2sql.common.json_files import read_rows, write_json, write_rows
from text2sql.common.provenance import read_record, sealed
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.training.difficulty import Difficulty

PROMPTS, GOLDS, RATINGS = "prompts.jsonl", "golds.jsonl", "difficulty.jsonl"
ABOUT = "about.json"


def prompts_folder(root: ArtifactRoot) -> Path:
    """Return the folder of the questions to train on, their gold results and the ratings."""
    return root.folder("prompts")


def write_prompts(
    folder: Path,
    prompts: Sequence[Question],
    golds: Mapping[str, GoldResult],
    ratings: Sequence[Difficulty],
    about: Mapping[str, Any],
) -> None:
    """Write what the filter found; ``about`` is what it depends on."""
    write_rows(folder / RATINGS, (rating.to_dict() for rating in ratings))
    kept = sorted(question.key for question in prompts)
    write_rows(folder / GOLDS, (golds[key].to_dict() for key in kept))
    write_rows(folder / PROMPTS, (question.to_dict() for question in prompts))
    write_json(folder / ABOUT, sealed(about))


def read_about(folder: Path) -> dict[str, Any]:
    """Return what the prompts depend on; raise Text2SqlError where it is gone or was edited."""
    about = read_record(folder / ABOUT)
    if not about:
        raise Text2SqlError(f"There is no {folder / ABOUT}: materialize training_prompts first.")
    return about


def read_table(path: Path, columns: list[str]) -> pd.DataFrame:
    """Return a file of JSON lines as a table with these columns."""
    return pd.DataFrame(read_rows(path), columns=columns)
