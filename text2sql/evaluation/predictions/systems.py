"""Several systems on the same questions: each one's accuracy, and whether two differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from text2sql.errors import Text2SqlError
from text2sql.evaluation.predictions.score import PredictionScores
from text2sql.evaluation.statistics import holm, mcnemar, paired_difference
from text2sql.judge.verdicts import Verdict

SUFFIXES = (".json", ".jsonl", ".sql", ".txt")


@dataclass(frozen=True)
class Pair:
    """Two systems on the questions that both have a verdict for.

    ``won`` questions only the second answers, ``lost`` only the first; ``difference`` is the second
    accuracy minus the first, with its paired 95 % interval. ``p`` is McNemar's, ``p_holm`` the
    same adjusted for all pairs.
    """

    first: str
    second: str
    n: int
    won: int
    lost: int
    difference: float
    low: float
    high: float
    p: float
    p_holm: float


def prediction_files(given: Sequence[Path]) -> dict[str, Path]:
    """Return prediction files by the name of their system; a folder stands for all its files.

    A name is the file's without its suffix, or the path where two files have the same. Raises
    Text2SqlError for a folder without such files, and for a file that is given twice.
    """
    files: list[Path] = []
    for path in given:
        inside = [path]
        if path.is_dir():
            inside = sorted(one for one in path.iterdir() if one.suffix.lower() in SUFFIXES)
            if not inside:
                raise Text2SqlError(
                    f"{path} has no prediction files: their names end with {', '.join(SUFFIXES)}."
                )
        files += inside
    twice = [path for path in files if [one.resolve() for one in files].count(path.resolve()) > 1]
    if twice:
        raise Text2SqlError(f"{twice[0]} is given twice; give each prediction file once.")
    stems = [path.stem for path in files]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in files}


def pairs_of(scores: Mapping[str, PredictionScores]) -> list[Pair]:
    """Compare every two systems; the p-values of all pairs are adjusted together (Holm)."""
    right = {
        name: {
            item.question.key: item.verdict is Verdict.MATCH
            for item in score.scored
            if item.verdict is not Verdict.INFRASTRUCTURE
        }
        for name, score in scores.items()
    }
    found = []
    for first, second in combinations(right, 2):
        both = right[first].keys() & right[second].keys()
        won = sum(right[second][key] and not right[first][key] for key in both)
        lost = sum(right[first][key] and not right[second][key] for key in both)
        low, high = paired_difference(won, lost, len(both))
        difference = (won - lost) / len(both) if both else 0.0
        found.append((first, second, len(both), won, lost, difference, low, high))
    ps = [mcnemar(won, lost) for _, _, _, won, lost, *_ in found]
    return [Pair(*one, p, q) for one, p, q in zip(found, ps, holm(ps), strict=True)]


def systems_object(
    scores: Mapping[str, PredictionScores], files: Mapping[str, Path]
) -> dict[str, Any]:
    """Return the systems and their pairs as plain JSON values, with every question's verdict."""
    return {
        "systems": {
            name: {"file": str(files[name])} | one.to_dict() for name, one in scores.items()
        },
        "pairs": [asdict(pair) for pair in pairs_of(scores)],
    }
