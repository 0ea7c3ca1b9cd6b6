"""The questions of the reports: what one is, when it is due, and where its database lies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.expectations import Expectations

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
MOST_VOTES = 128
_DAYS: dict[str, Callable[[date], bool]] = {
    "weekdays": lambda day: day.weekday() < 5,
    "weekly": lambda day: day.weekday() == 0,
    "monthly": lambda day: day.day == 1,
}


class QuestionError(Text2SqlError):
    """A field of a question whose value makes no sense; ``field`` is its name."""

    def __init__(self, id: object, field: str, problem: str) -> None:
        """Say which question, which field and what is wrong with it."""
        super().__init__(f"question {id!r}: {field} {problem}")
        self.field = field


@dataclass(frozen=True)
class ReportQuestion:
    """A question that is answered on a schedule.

    ``database`` is a path, or a database's name below the folders that are searched.
    ``votes`` is the number of candidates asked for; below ``minimum_share`` of agreement
    nothing is published. ``timezone`` is an IANA name: the day of a daily answer begins there.
    ``group`` says on which days the question is due (``due_on``). ``verified_sql`` is SQL that
    a person vouches for: each answer is compared with what it returns.
    """

    id: str
    question: str
    database: str
    evidence: str = ""
    votes: int = 8
    minimum_share: float = 0.5
    timezone: str = "UTC"
    group: str = "daily"
    owner: str = ""
    verified_sql: str | None = None
    expectations: Expectations = field(default_factory=Expectations)
    enabled: bool = True

    def __post_init__(self) -> None:
        """Raise QuestionError for the first field whose value makes no sense."""
        for name, (fine, problem) in _RULES.items():
            value = getattr(self, name)
            if not fine(value):
                raise QuestionError(self.id, name, f"must be {problem}, not {value!r}")

    def scheduled_at(self, day: date) -> datetime:
        """Return the instant at which ``day`` begins in the question's time zone, in UTC."""
        return datetime.combine(day, time(), ZoneInfo(self.timezone)).astimezone(UTC)

    def due_on(self, day: date) -> bool:
        """Say whether the question's group is due on a day.

        ``weekdays`` is due from Monday to Friday, ``weekly`` on Mondays, ``monthly`` on the
        first; ``daily`` and every other name are due every day. Capitals make no difference.
        """
        return _DAYS.get(self.group.strip().lower(), lambda day: True)(day)


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def is_question_id(value: Any) -> bool:
    """Say whether a value can be the id of a question."""
    return isinstance(value, str) and bool(_ID.match(value))


def is_time_zone(name: Any) -> bool:
    """Say whether a name is that of an IANA time zone, such as ``Europe/Berlin``."""
    try:
        return isinstance(name, str) and bool(ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        return False


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (
        is_question_id,
        "1 to 100 letters, digits, '_', '.' or '-', a letter or digit first",
    ),
    "question": (_is_filled, "text that is not empty"),
    "database": (_is_filled, "the name or path of a database"),
    "evidence": (lambda v: isinstance(v, str), "text"),
    "votes": (
        lambda v: type(v) is int and 1 <= v <= MOST_VOTES,
        f"a whole number from 1 to {MOST_VOTES}",
    ),
    "minimum_share": (
        lambda v: type(v) in (int, float) and 0 <= v <= 1,
        "a number from 0 to 1",
    ),
    "timezone": (is_time_zone, "the name of a time zone, such as Europe/Berlin"),
    "group": (_is_filled, "a name: daily, weekdays, weekly, monthly or one of your own"),
    "owner": (lambda v: isinstance(v, str), "text"),
    "verified_sql": (lambda v: v is None or _is_filled(v), "one SQL query"),
    "expectations": (lambda v: isinstance(v, Expectations), "a mapping"),
    "enabled": (lambda v: isinstance(v, bool), "true or false"),
}


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
