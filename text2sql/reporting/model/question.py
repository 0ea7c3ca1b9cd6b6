"""The questions of the reports: what one asks and expects, when it is due, and its database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.bounds import MINIMUM_SHARE, VOTES
from text2sql.reporting.model.values import ResultTable, clean_text, safe_names

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_INTERVALS = ("daily", "weekdays", "weekly", "monthly")
_UNKNOWN_INTERVALS = (
    *("hourly", "biweekly", "quarterly", "yearly", "annually", "weekends", "mondays", "tuesdays"),
    *("wednesdays", "thursdays", "fridays", "saturdays", "sundays"),
)


@dataclass(frozen=True)
class Expectations:
    """Conditions on an answer; one that breaks them is not published.

    ``columns`` are exactly the answer's columns, in order, compared as the view names them
    (``COUNT(*)`` is ``count``). ``least_rows`` and ``most_rows`` bound the rows of the result.
    ``not_empty`` requires a value that is not NULL: an average over nothing has a row.
    """

    columns: tuple[str, ...] = ()
    least_rows: int | None = None
    most_rows: int | None = None
    not_empty: bool = False

    def __bool__(self) -> bool:
        """Whether anything is expected."""
        return self != Expectations()

    def to_dict(self) -> dict[str, Any]:
        """Return what is expected as JSON values, without the fields that expect nothing."""
        values = asdict(self) | {"columns": list(self.columns)}
        return {n: v for n, v in values.items() if v not in ([], None) and v is not False}

    def broken_by(self, table: ResultTable) -> list[str]:
        """Return a sentence for each expectation that an answer breaks."""
        found = [column.name for column in table.columns]
        problems = []
        if self.columns and found != safe_names(self.columns):
            expected = ", ".join(safe_names(self.columns))
            problems.append(f"its columns are {', '.join(found)}, expected {expected}")
        rows = counted(table.total, "row")
        if table.total < (self.least_rows or 0):
            problems.append(f"it has {rows}, expected at least {self.least_rows}")
        if self.most_rows is not None and table.total > self.most_rows:
            problems.append(f"it has {rows}, expected at most {self.most_rows}")
        whole = table.total <= len(table.rows)  # rows that are not kept may have values
        if self.not_empty and whole and all(v is None for row in table.rows for v in row.values()):
            problems.append("it has no value, expected at least one")
        return problems


def read_expectations(values: object) -> Expectations:
    """Read expectations from JSON or YAML values; a Text2SqlError names the invalid field."""
    if not isinstance(values, Mapping):
        raise Text2SqlError(f"expectations must be a mapping with {', '.join(_EXPECTED)}")
    for name, value in values.items():
        if name not in _EXPECTED:
            raise Text2SqlError(
                f"expectations has no field {name!r}; its fields are {', '.join(_EXPECTED)}"
            )
        is_valid, problem = _EXPECTED[name]
        if value is not None and not is_valid(value):
            raise Text2SqlError(f"expectations.{name} must be {problem}, not {value!r}")
    given = {name: value for name, value in values.items() if value is not None}
    columns = tuple(clean_text(name) for name in given.get("columns", ()))
    found = Expectations(**given | {"columns": columns})
    least, most = found.least_rows, found.most_rows
    if least is not None and most is not None and least > most:
        raise Text2SqlError(f"expectations.least_rows ({least}) is above most_rows ({most})")
    return found


class QuestionError(Text2SqlError):
    """An invalid value of a question's field; ``field`` is its name."""

    def __init__(self, id: object, field: str, problem: str) -> None:
        """Name the question, the field and the problem."""
        super().__init__(f"question {id!r}: {field} {problem}")
        self.field = field


@dataclass(frozen=True)
class ReportQuestion:
    """A question that is answered on a schedule.

    ``database`` is a path, or a database's name below the folders that are searched.
    ``votes`` and ``minimum_share`` are described in ``bounds``. ``timezone`` is an IANA name: the
    day of a daily answer begins there. ``group`` decides on which days the question is due
    (``due_on``). ``verified_sql`` is SQL that a person vouches for: each answer is compared with
    its result.
    """

    id: str
    question: str
    database: str
    evidence: str = ""
    votes: int = VOTES.default
    minimum_share: float = MINIMUM_SHARE.default
    timezone: str = "UTC"
    group: str = "daily"
    owner: str = ""
    verified_sql: str | None = None
    expectations: Expectations = field(default_factory=Expectations)
    enabled: bool = True

    def __post_init__(self) -> None:
        """Raise QuestionError for the first invalid field."""
        for name, (is_valid, problem) in _RULES.items():
            value = getattr(self, name)
            if not is_valid(value):
                raise QuestionError(self.id, name, f"must be {problem}, not {value!r}")

    def scheduled_at(self, day: date) -> datetime:
        """Return the instant at which ``day`` begins in the question's time zone, in UTC."""
        return datetime.combine(day, time(), ZoneInfo(self.timezone)).astimezone(UTC)

    def due_on(self, day: date) -> bool:
        """Whether the question's group is due on a day.

        ``weekdays`` is due from Monday to Friday, ``weekly`` on Mondays, ``monthly`` on the
        first; ``daily`` and every other name are due every day. Case does not matter.
        """
        weekday = day.weekday()
        due = {"weekdays": weekday < 5, "weekly": weekday == 0, "monthly": day.day == 1}
        return due.get(self.group.strip().lower(), True)


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_group(value: Any) -> bool:
    """Whether a value names a group; a mistyped or unknown interval would be due daily."""
    if not _is_filled(value):
        return False
    name = value.strip().lower()
    return name in _INTERVALS or not get_close_matches(
        name, (*_INTERVALS, *_UNKNOWN_INTERVALS), cutoff=0.8
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_filled, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_question_id(value: Any) -> bool:
    """Whether a value can be the id of a question."""
    return isinstance(value, str) and bool(_ID.match(value))


def is_time_zone(name: Any) -> bool:
    """Whether a name is an IANA time zone's, such as ``Europe/Berlin``."""
    try:
        return isinstance(name, str) and bool(ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        return False


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (
        is_question_id,
        "1 to 100 letters, digits, '_', '.' or '-', starting with a letter or digit",
    ),
    "question": (_is_filled, "text that is not empty"),
    "database": (_is_filled, "the name or path of a database"),
    "evidence": (lambda v: isinstance(v, str), "text"),
    "votes": (VOTES.accepts, str(VOTES)),
    "minimum_share": (MINIMUM_SHARE.accepts, str(MINIMUM_SHARE)),
    "timezone": (is_time_zone, "the name of a time zone, such as Europe/Berlin"),
    "group": (
        _is_group,
        "daily, weekdays, weekly, monthly, or any other name (due every day) that names no other "
        "interval",
    ),
    "owner": (lambda v: isinstance(v, str), "text"),
    "verified_sql": (lambda v: v is None or _is_filled(v), "one SQL query"),
    "expectations": (lambda v: isinstance(v, Expectations), "a mapping"),
    "enabled": (lambda v: isinstance(v, bool), "true or false"),
}
_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "columns": (_is_names, "a list of column names"),
    "least_rows": (_is_count, "a whole number from 0"),
    "most_rows": (_is_count, "a whole number from 0"),
    "not_empty": (lambda v: isinstance(v, bool), "true or false"),
}


def find_database(name: str, folders: Sequence[Path]) -> Path:
    """Return the database file that ``name`` means: a path, or a name below one of ``folders``.

    In a folder, ``shop`` is found as ``shop``, ``shop.sqlite`` or ``shop/shop.sqlite``.
    """
    stem = Path(name).name
    for folder in folders:
        for relative in (name, f"{name}.sqlite", f"{name}/{stem}.sqlite"):
            if (folder / relative).is_file():
                return folder / relative
    searched = ", ".join(map(str, folders))
    raise Text2SqlError(f"No database {name!r} below {searched}: give the path of its file.")


def database_fingerprint(database: Path) -> str:
    """Return 16 hexadecimal digits of the sha256 over a database file and its write-ahead log."""
    digest = hashlib.sha256()
    # The log has commits that are not in the file yet; the last process to close it removes it.
    for suffix in ("", "-wal"):
        try:
            with database.with_name(database.name + suffix).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError:
            if not suffix:
                raise
    return digest.hexdigest()[:16]
