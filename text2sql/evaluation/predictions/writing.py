"""Predictions in the forms in which BIRD's and Spider's official evaluators read them.

Both pair predictions with questions by their order, so every row of the questions file has one,
also where there is no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from text2sql.common.files import write_whole
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout
from text2sql.sandbox.sql.statements import BIRD_SEPARATOR

NO_ANSWER = "NO ANSWER"
"""Stands for a missing answer in Spider's form, where an empty line ends a session: no SQL."""
_PIECES = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|(?:--[^\n]*|/\*.*?\*/|\s)+", re.DOTALL
)


def write_submissions(
    folder: Path, split: str, questions: Sequence[Question], sql: Mapping[str, str]
) -> None:
    """Write ``predict_<split>.json`` in BIRD's form and ``predict_<split>.sql`` in Spider's."""
    write_whole(folder / f"predict_{split}.json", bird_submission(questions, sql))
    write_whole(folder / f"predict_{split}.sql", spider_submission(questions, sql))


def submitted_sql(rollouts: Iterable[Rollout]) -> dict[str, str]:
    """Return what one rollout of each question submitted, by its key; empty without a query."""
    return {rollout.key: rollout.sql or "" for rollout in rollouts}


def bird_submission(questions: Sequence[Question], sql: Mapping[str, str]) -> str:
    """Return BIRD's predict_dev.json: position in the questions file to SQL and database.

    ``questions`` are all rows of the file in its order, ``sql`` goes by question key. A missing
    answer is empty, which to the evaluator matches a gold query without rows and nothing else.
    """
    rows = {
        str(place): f"{sql.get(question.key, '')}{BIRD_SEPARATOR}{question.db_id}"
        for place, question in enumerate(questions)
    }
    return json.dumps(rows, indent=4) + "\n"


def spider_submission(questions: Sequence[Question], sql: Mapping[str, str]) -> str:
    """Return Spider's predictions: one query a line, in the order of the questions file."""
    lines = (one_line(sql.get(question.key, "")) or NO_ANSWER for question in questions)
    return "".join(f"{line}\n" for line in lines)


def one_line(sql: str) -> str:
    """Write a query on one line without tabs; it means the same.

    Comments go, since one would swallow what follows it; a line break or tab inside a text
    becomes ``char(10)``, ``char(13)`` or ``char(9)``.
    """
    return _PIECES.sub(_flat, sql).strip()


def _flat(found: re.Match[str]) -> str:
    piece = found.group()
    if piece.startswith("'"):
        return _flat_text(piece)
    if piece[0] in '"`[':
        return re.sub(r"[\n\r\t]", " ", piece)
    return " "


def _flat_text(piece: str) -> str:
    flat = re.sub(r"[\n\r\t]", lambda found: f"'||char({ord(found.group())})||'", piece)
    return piece if flat == piece else f"({flat})"
