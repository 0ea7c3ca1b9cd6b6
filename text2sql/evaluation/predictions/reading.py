"""Read prediction files, and pair predictions with questions.

The forms are BIRD's dictionary, lists, JSON Lines, and Spider's one query a line. Ids are question
ids, keys, or positions in the questions file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.files import read_text
from text2sql.common.json_files import json_fault
from text2sql.datasets.reading.rows import kind_of
from text2sql.errors import Text2SqlError
from text2sql.questions import Question
from text2sql.sandbox import cut_suffix
from text2sql.sandbox.sql.statements import BIRD_SEPARATOR

_IDS = ("key", "question_id", "idx", "id")
_SQL = (
    *("predicted_sql", "pred_sql", "predict_sql", "generated_sql", "prediction", "pred"),
    *("sql", "query"),
)
"""Names of the predicted SQL; the last two are also those of gold, beside which others count."""
_LINES = (".sql", ".txt")
_WHOLE = re.compile(r"0*([0-9]+)(?:\.0+)?")
_SHOWN = 3


class Predictions(dict[str, str]):
    """SQL by question key, and what could not be paired.

    ``missing`` are keys of questions without a prediction: they count as wrong, and later
    predictions do not move up. ``unknown`` are ids of the file that no question has. ``no_text``
    are ids whose prediction is neither text nor null: not a query, so it counts as wrong.
    ``elsewhere`` are keys whose prediction names another database than the question does.
    """

    def __init__(
        self,
        sql: dict[str, str],
        missing: Sequence[str],
        unknown: Sequence[str],
        no_text: Sequence[str] = (),
        elsewhere: Sequence[str] = (),
    ):
        super().__init__(sql)
        self.missing, self.unknown = tuple(missing), tuple(unknown)
        self.no_text, self.elsewhere = tuple(no_text), tuple(elsewhere)


def read_predictions(
    path: Path, questions: Sequence[Question], file_keys: Sequence[str] | None = None
) -> Predictions:
    """Read predictions for ``questions`` as they are written, only without BIRD's suffix.

    A fenced block stays in its fence: the official evaluator counts it as an error.

    Ids are question ids (``17``) or keys (``dev/17``). One exception, BIRD mini-dev's published
    files: ids that are exactly 0 to n-1, for a questions file of n rows with other ids, are
    positions in that file; ids that are nearly those are refused. ``file_keys`` names the rows of
    the file (``Dataset.file_keys``) where ``questions`` is a part of it. Predictions without ids, a
    list of texts or Spider's one query a line (``.sql``, ``.txt``), are paired by their order and
    must be as many as the rows. Raises Text2SqlError for a file that cannot be read, has two
    different predictions for a question, or has none of the questions.
    """
    rows = file_keys if file_keys is not None else [question.key for question in questions]
    pairs = _read(path, rows, {question.db_id for question in questions})
    if not pairs:
        raise Text2SqlError(f"{path} holds no predictions.")
    if all(isinstance(value, list) for _, value in pairs):
        raise Text2SqlError(
            f"{path} has a list of predictions for each question: let them vote with text2sql vote."
        )
    names = _names_of(path, pairs, rows, questions)
    found: dict[str, Any] = {}
    for identity, prediction in pairs:
        key = names.get(identity, "")
        if key in found and found[key] != prediction:
            raise Text2SqlError(f"{path} has two predictions for {key}; keep one.")
        if key:
            found[key] = prediction
    keys = [question.key for question in questions]
    missing = [key for key in keys if key not in found]
    if len(missing) == len(keys):
        raise Text2SqlError(
            f"No id of {path} belongs to a question: the file begins with {pairs[0][0]!r}, the "
            f"{counted(len(keys), 'question')} with {keys[0]!r}; give predictions for these."
        )
    sql = {key: cut_suffix(found[key]) for key in keys if key in found}
    unknown = [identity for identity, _ in pairs if identity not in names]
    no_text = [identity for identity, value in pairs if not isinstance(value, str | None)]
    elsewhere = [one.key for one in questions if _names_another(found.get(one.key), one)]
    return Predictions(sql, missing, unknown, no_text, elsewhere)


def _names_of(
    path: Path, pairs: Sequence[tuple[str, Any]], rows: Sequence[str], questions: Iterable[Question]
) -> dict[str, str]:
    """Map the ids that the file at ``path`` may have to keys; ``rows`` are those of its questions.

    Raises Text2SqlError for ids that look like positions of which some are missing or extra: those
    that happen to be ids of other questions would be paired wrongly.
    """
    given = {identity for identity, _ in pairs}
    ids = {key.split("/", 1)[-1]: key for key in rows if key}
    positions = {str(position): key for position, key in enumerate(rows)}
    if given == set(positions) and given != set(ids):
        return positions
    names = ids | {key: key for key in rows if key}
    by_id, by_position = given & names.keys(), given & positions.keys()
    if len(by_position) > 2 * len(by_id) and _fit_positions(pairs, positions, questions):
        ends = {"missing": sorted(set(positions) - given, key=int)}
        ends["extra"] = sorted(given - set(positions))
        wrong = "; ".join(f"{name}: {_listed(found)}" for name, found in ends.items() if found)
        raise Text2SqlError(
            f"Only {len(by_id)} of {counted(len(given), 'id')} of {path} are question ids. They "
            f"look like positions in the questions file (0 to {len(positions) - 1}; {wrong}): give "
            "each position an entry, with an empty text where there is no prediction, or give the "
            "questions' ids."
        )
    return names


def _fit_positions(
    pairs: Sequence[tuple[str, Any]], positions: Mapping[str, str], questions: Iterable[Question]
) -> bool:
    """Whether no prediction names another database than the question at its position."""
    asked = {question.key: question for question in questions}
    placed = [(asked.get(positions.get(identity, "")), value) for identity, value in pairs]
    return not any(question and _names_another(value, question) for question, value in placed)


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if ids[_SHOWN:] else ""
    return ", ".join(ids[:_SHOWN]) + more


def _names_another(prediction: Any, question: Question) -> bool:
    """Whether BIRD's suffix of a prediction names another database than its question."""
    if not isinstance(prediction, str):
        return False
    _, suffix, database = prediction.rpartition(BIRD_SEPARATOR)
    return bool(suffix) and database.strip() != question.db_id


def _read(path: Path, rows: Sequence[str], databases: Set[str]) -> list[tuple[str, Any]]:
    """Return (id, prediction) in file order; a file without ids gets the keys of ``rows``."""
    text = read_text(path, "the predictions")
    if path.suffix.lower() in _LINES and text.lstrip()[:1] not in ("{", "["):
        lines = text.removesuffix("\n").split("\n") if text.strip() else []
        while len(lines) > len(rows) and not lines[-1].strip():
            lines.pop()
        return _in_order([_of_line(line, databases) for line in lines], rows, path)
    content = _parse(text, path)
    if isinstance(content, _Object):
        pairs = content.pairs
    # Predictions without ids, some of them texts.
    elif any(isinstance(one, str) for one in content) and not any(
        isinstance(one, _Object) and one.id is not None for one in content
    ):
        return _in_order(content, rows, path)
    else:
        pairs = []
        for position, row in enumerate(content):
            if not isinstance(row, _Object) or row.id is None or not row.sql:
                names = ", ".join(list(row)[:8]) if isinstance(row, _Object) else ""
                found = f"it has {names}" if names else f"it is {kind_of(row)}"
                raise Text2SqlError(
                    f"{path}: entry {position} (counting from 0) must be an object with a "
                    f"question_id and its SQL as predicted_sql; {found}."
                )
            pairs.append((row.id, row.sql[0]))
    known = {key.split("/", 1)[-1] for key in rows}
    return [
        (
            _identity(identity, known),
            value.sql[0] if isinstance(value, _Object) and value.sql else value,
        )
        for identity, value in pairs
    ]


def _of_line(line: str, databases: Set[str]) -> str:
    """Return the query of a line, which may end in a tab and one of the databases.

    A query may have tabs of its own, and BIRD's suffix, which is cut where all forms have it.
    """
    sql, _, database = line.rstrip().rpartition("\t")
    ends = database in databases and not sql.endswith(BIRD_SEPARATOR.rstrip())
    return sql if ends else line


def _in_order(texts: Sequence[Any], rows: Sequence[str], path: Path) -> list[tuple[str, Any]]:
    """Pair predictions without ids with the rows of the questions file."""
    if texts and len(texts) != len(rows):
        raise Text2SqlError(
            f"{path} has {counted(len(texts), 'prediction')} without ids, the questions file "
            f"{counted(len(rows), 'row')}; give one for each row, or give ids."
        )
    return [(key, sql) for key, sql in zip(rows, texts, strict=False) if key]


def _identity(value: Any, known: Set[str]) -> str:
    """Return an id as text; 12.0, as pandas writes it, and 012 are 12 unless they are ids too."""
    text = str(value).strip()
    number = _WHOLE.fullmatch(text)
    return number[1] if number and text not in known else text


class _Object(dict[str, Any]):
    """A JSON object that keeps its pairs, so that a repeated key is noticed.

    ``id`` is None without one. ``sql`` has the predicted SQL, also null, and is empty without one:
    a gold query beside a prediction that is null never replaces it.
    """

    def __init__(self, pairs: list[tuple[str, Any]]):
        super().__init__(pairs)
        self.pairs = pairs
        lower = {name.lower(): value for name, value in pairs}
        self.id = next((lower[name] for name in _IDS if lower.get(name) is not None), None)
        self.sql = [lower[name] for name in _SQL if name in lower][:1]
        database = lower.get("db_id")
        # A row may name its database in a field: then its SQL says so in BIRD's way.
        if self.sql and isinstance(self.sql[0], str) and isinstance(database, str):
            text, ends = self.sql[0], BIRD_SEPARATOR in self.sql[0]
            self.sql = [text if ends or not database else f"{text}{BIRD_SEPARATOR}{database}"]


def _parse(text: str, path: Path) -> list[Any] | _Object:
    """Read one JSON list or object, or one object a line."""
    try:
        content = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as whole:
        return _parse_lines(text, path, whole)
    if isinstance(content, _Object):
        if content.sql and isinstance(content.sql[0], str):
            return [content]
        lists = [rows for rows in content.values() if isinstance(rows, list) and rows]
        lists = [rows for rows in lists if all(isinstance(row, _Object) for row in rows)]
        return lists[0] if len(lists) == 1 else content
    if isinstance(content, list):
        return content
    raise Text2SqlError(f"{path} must hold an object or a list of predictions.")


def _parse_lines(text: str, path: Path, whole: Exception) -> list[Any]:
    """Read one JSON object a line; ``whole`` says why the text is not one JSON value."""
    found: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            found += [json.loads(line, object_pairs_hook=_Object)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            if found:
                raise Text2SqlError(
                    f"{path}, line {number} is not JSON: {json_fault(error)}."
                ) from error
            raise Text2SqlError(
                f"{path} is neither JSON nor JSON Lines: {json_fault(whole)}."
            ) from whole
    return found
