"""The questions of the reports: what one is, and reading a YAML file of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from text2sql.errors import Text2SqlError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
MOST_VOTES = 128


@dataclass(frozen=True)
class ReportQuestion:
    """A question that is answered on a schedule.

    ``database`` is a path, or a database's name below the folders that are searched.
    ``votes`` is the number of candidates asked for; below ``minimum_share`` of agreement
    nothing is published. ``timezone`` is an IANA name: the day of a daily answer begins there.
    """

    id: str
    question: str
    database: str
    evidence: str = ""
    votes: int = 8
    minimum_share: float = 0.5
    timezone: str = "UTC"
    group: str = "daily"

    def __post_init__(self) -> None:
        """Raise Text2SqlError for the first field whose value makes no sense."""
        for name, problem in _problems(self):
            raise Text2SqlError(f"question {self.id!r}: {name} {problem}")

    def scheduled_at(self, day: date) -> datetime:
        """Return the instant at which ``day`` begins in the question's time zone, in UTC."""
        return datetime.combine(day, time(), ZoneInfo(self.timezone)).astimezone(UTC)


def _problems(question: ReportQuestion) -> list[tuple[str, str]]:
    checks = [
        ("id", bool(_ID.match(question.id)), "must be 1 to 100 letters, digits, '_', '.' or '-'"),
        ("question", bool(question.question.strip()), "must not be empty"),
        ("database", bool(question.database.strip()), "must not be empty"),
        ("votes", 1 <= question.votes <= MOST_VOTES, f"must be from 1 to {MOST_VOTES}"),
        ("minimum_share", 0 <= question.minimum_share <= 1, "must be from 0 to 1"),
        ("timezone", _is_time_zone(question.timezone), "must be a name such as Europe/Berlin"),
        ("group", bool(question.group.strip()), "must not be empty"),
    ]
    return [(name, problem) for name, fine, problem in checks if not fine]


def _is_time_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


_TEXT = ("id", "question", "database", "evidence", "timezone", "group")
_FIELDS = (*_TEXT, "votes", "minimum_share")
_REQUIRED = ("id", "question", "database")


def read_questions(path: Path) -> list[ReportQuestion]:
    """Read a YAML list of questions, or a mapping whose ``questions`` is that list.

    Raises Text2SqlError with the file, the line and the field for anything malformed.
    """
    rows = _entries(path)
    found: dict[str, int] = {}
    questions = []
    for line, row in rows:
        question = _question(path, line, row)
        if question.id in found:
            raise Text2SqlError(
                f"{path}:{line}: question {question.id!r} stands at line {found[question.id]} too;"
                " give each question an id of its own"
            )
        found[question.id] = line
        questions.append(question)
    return questions


def _entries(path: Path) -> list[tuple[int, Any]]:
    """Return each entry of the list with the line it starts on."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Text2SqlError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise Text2SqlError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if isinstance(root, yaml.MappingNode) and isinstance(data, dict):
        nodes = {key.value: value for key, value in root.value}
        root, data = nodes.get("questions"), data.get("questions")
    if not isinstance(root, yaml.SequenceNode) or not isinstance(data, list):
        raise Text2SqlError(f"{path}: must hold a list of questions")
    return [(node.start_mark.line + 1, row) for node, row in zip(root.value, data, strict=True)]


def _question(path: Path, line: int, row: Any) -> ReportQuestion:
    if not isinstance(row, dict):
        raise Text2SqlError(f"{path}:{line}: each question is a mapping with {_list(_FIELDS)}")
    for field in row:
        if field not in _FIELDS:
            raise Text2SqlError(
                f"{path}:{line}: unknown field {field!r}; there are {_list(_FIELDS)}"
            )
    for field in _REQUIRED:
        if row.get(field) is None:
            raise Text2SqlError(f"{path}:{line}: the field {field!r} is missing")
    values = {k: _value(path, line, k, v) for k, v in row.items() if v is not None}
    try:
        return ReportQuestion(**values)
    except Text2SqlError as error:
        raise Text2SqlError(f"{path}:{line}: {error}") from error


def _value(path: Path, line: int, field: str, value: Any) -> Any:
    """Return a field's value with its type checked; an id such as 17 may be a number."""
    if field in _TEXT and isinstance(value, str):
        return value.strip()
    if field == "id" and type(value) is int:
        return str(value)
    if field == "votes" and type(value) is int:
        return value
    if field == "minimum_share" and type(value) in (int, float):
        return float(value)
    kind = {"votes": "a whole number", "minimum_share": "a number"}.get(field, "text")
    raise Text2SqlError(f"{path}:{line}: the field {field!r} must be {kind}, not {value!r}")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


def find_database(name: str, folders: Sequence[Path]) -> Path:
    """Return the database file that ``name`` means: a path, or a name below one of ``folders``.

    In a folder, ``shop`` is found as ``shop``, ``shop.sqlite`` or ``shop/shop.sqlite``.
    Raises Text2SqlError with the places that were searched.
    """
    stem = Path(name).name
    tried = [
        place
        for folder in folders
        for place in (folder / name, folder / f"{name}.sqlite", folder / name / f"{stem}.sqlite")
    ]
    for place in tried:
        if place.is_file():
            return place
    searched = ", ".join(str(folder) for folder in folders)
    raise Text2SqlError(f"database {name!r}: there is no such file below {searched}")
