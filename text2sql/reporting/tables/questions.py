"""The table of questions: reading, adding, editing, disabling and importing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.model.question import ReportQuestion, read_expectations
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.database import naming_row, wait_for_others
from text2sql.reporting.tables.question_file import FIELDS, ImportReport, Seed, merge, seed_of
from text2sql.reporting.tables.store import ReportingStore
from text2sql.reporting.tables.views import free_view_name

_table = tables.questions
_LOCK = 7_418_235_002
"""PostgreSQL's advisory lock for changes to questions: two processes may add the same one."""
_COLUMNS = {"timezone": "time_zone", "group": "schedule_group"}
"""Columns that are not named like the question's field."""
_UNREADABLE = (Text2SqlError, ValueError, TypeError)


@dataclass(frozen=True)
class QuestionList:
    """Questions in the order of their ids; ``unreadable`` has the problem of each invalid row."""

    readable: list[ReportQuestion]
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QuestionDetails:
    """A question, its view, its file, and the fields edited since the file's last import."""

    question: ReportQuestion
    view: str
    seed_file: str | None
    edited: list[str]


class QuestionTable:
    """The table ``questions`` of a reporting store; every change is one transaction."""

    def __init__(self, store: ReportingStore) -> None:
        """Work on the tables of an open store."""
        self._store = store

    def read(self, group: str | None = None, *, enabled_only: bool = False) -> QuestionList:
        """Read the questions of one schedule group or of all; invalid rows do not stop others."""
        query = sa.select(_table.c.id).order_by(_table.c.id)
        if group is not None:
            query = query.where(_table.c.schedule_group == group)
        if enabled_only:
            query = query.where(_table.c.enabled)
        found = QuestionList([])
        for (id,) in self._store.read(query):
            if not isinstance(id, str):  # SQLite stores any type in any column
                found.unreadable[repr(id)] = f"question {id!r}: its id must be text"
                continue
            try:
                found.readable.append(self.get(id).question)
            except InfrastructureError:
                raise
            except _UNREADABLE as error:
                found.unreadable[id] = str(error)
        return found

    def get(self, id: str) -> QuestionDetails:
        """Return one question; raise Text2SqlError if it is unknown or its row is invalid."""
        with naming_row(f"question {id!r}"):
            rows = self._store.read(sa.select(_table).where(_table.c.id == id))
        if not rows:
            raise self._unknown([id])
        question = _question_of(rows[0])
        now, seed = seed_of(question), rows[0].seed or {}
        edited = [name for name in now if name in seed and now[name] != seed[name]]
        return QuestionDetails(question, rows[0].view_name, rows[0].seed_file, edited)

    def files(self) -> dict[str, str]:
        """Return the file that each question came from; ``""`` if it was made by hand."""
        rows = self._store.read(sa.select(_table.c.id, _table.c.seed_file))
        return {row.id: row.seed_file or "" for row in rows}

    def add(self, question: ReportQuestion) -> None:
        """Add a question; raise Text2SqlError if its id is taken."""
        with self._changing() as connection:
            if question.id in _ids(connection):
                raise Text2SqlError(
                    f"Question {question.id!r} already exists:"
                    " change it with text2sql questions edit."
                )
            _insert(connection, question)

    def edit(self, id: str, **changes: Any) -> ReportQuestion:
        """Change fields of a question; raise Text2SqlError for an invalid value."""
        with self._changing() as connection:
            question = replace(_locked(connection, id)[0], **changes)
            _update(connection, question)
        return question

    def enable(self, ids: Sequence[str], enabled: bool) -> None:
        """Enable or disable questions, all or none; a Text2SqlError names unknown ids."""
        with self._changing() as connection:
            known = _ids(connection)
            if unknown := [id for id in ids if id not in known]:
                raise self._unknown(unknown)
            values = {"enabled": enabled, "updated_at": datetime.now(UTC)}
            connection.execute(sa.update(_table).where(_table.c.id.in_(ids)).values(values))

    def delete(self, ids: Sequence[str]) -> None:
        """Delete questions that were never answered, all or none.

        Raises Text2SqlError for unknown ids, and for questions whose answers refer to them.
        """
        with self._changing() as connection:
            known = _ids(connection)
            if unknown := [id for id in ids if id not in known]:
                raise self._unknown(unknown)
            column = tables.answers.c.question_id
            query = sa.select(column).where(column.in_(ids)).distinct().order_by(column)
            if answered := list(connection.scalars(query)):
                raise Text2SqlError(
                    f"Answers refer to {', '.join(map(repr, answered))}: disable it instead with "
                    f"text2sql questions disable {' '.join(answered)}."
                )
            connection.execute(sa.delete(_table).where(_table.c.id.in_(ids)))

    def import_file(
        self, file: Path, questions: Iterable[ReportQuestion], *, overwrite: bool = False
    ) -> ImportReport:
        """Merge a file's questions into the table (``question_file`` has the rules).

        ``overwrite`` replaces what was edited by hand.
        """
        report = ImportReport()
        latest = {question.id: question for question in questions}
        with self._changing() as connection:
            known = _ids(connection)
            for question in latest.values():
                if question.id not in known:
                    _insert(connection, question, seed_of(question), str(file))
                    report.added.append(question.id)
                elif overwrite:
                    _update(connection, question, seed=seed_of(question), seed_file=str(file))
                    report.updated[question.id] = ["everything"]
                else:
                    _merge(connection, question, str(file), report)
            query = sa.select(_table.c.id).where(_table.c.seed_file == str(file), _table.c.enabled)
            mine = (id for id in connection.scalars(query) if isinstance(id, str))
            report.gone = sorted(id for id in mine if id not in latest)
        return report

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._store.writing() as connection:
            wait_for_others(connection, _LOCK)
            yield connection

    def _unknown(self, ids: Sequence[str]) -> Text2SqlError:
        named = ", ".join(map(repr, ids))
        return Text2SqlError(
            f"No question {named} in {self._store.name}; text2sql questions list shows all."
        )


def _ids(connection: Connection) -> set[str]:
    return set(connection.scalars(sa.select(_table.c.id)))


def _insert(
    connection: Connection, question: ReportQuestion, seed: Seed | None = None, file: str = ""
) -> None:
    taken = set(connection.scalars(sa.select(_table.c.view_name)))
    now = datetime.now(UTC)
    about = {"seed": seed, "seed_file": file or None, "created_at": now, "updated_at": now}
    about["view_name"] = free_view_name(connection, question.id, taken)
    connection.execute(sa.insert(_table).values(_question_row(question) | about))


def _update(connection: Connection, question: ReportQuestion, **about: Any) -> None:
    row = _question_row(question) | about | {"updated_at": datetime.now(UTC)}
    connection.execute(sa.update(_table).where(_table.c.id == question.id).values(row))


def _locked(connection: Connection, id: str) -> tuple[ReportQuestion, Seed | None, str]:
    """Return a question, its seed and its file, locked until the transaction ends."""
    query = sa.select(_table).where(_table.c.id == id).with_for_update()
    with naming_row(f"question {id!r}"):
        row = connection.execute(query).first()
    if row is None:
        raise Text2SqlError(f"There is no question {id!r}; text2sql questions list shows all.")
    return _question_of(row), row.seed, row.seed_file or ""


def _merge(connection: Connection, theirs: ReportQuestion, file: str, report: ImportReport) -> None:
    try:
        mine, seed, before = _locked(connection, theirs.id)
    except _UNREADABLE as error:
        report.unreadable[theirs.id] = str(error)
        return
    new = seed_of(theirs)
    if seed is None and seed_of(mine) != new:
        report.own.append(theirs.id)
        return
    taken, kept = merge(mine, seed or new, theirs)
    if kept:
        report.kept[theirs.id] = kept
    if taken:
        report.updated[theirs.id] = list(taken)
        if before not in ("", file):
            report.moved[theirs.id] = before
    else:
        report.unchanged += 1
    if taken or seed != new:
        _update(connection, replace(mine, **taken), seed=new, seed_file=file)


def _question_row(question: ReportQuestion) -> dict[str, Any]:
    row = {_COLUMNS.get(name, name): value for name, value in asdict(question).items()}
    return row | {"expectations": question.expectations.to_dict() or None}


def _question_of(row: sa.Row[Any]) -> ReportQuestion:
    values = row._mapping
    for name in ("view_name", "seed_file"):
        if not isinstance(values[name], str | None):
            raise Text2SqlError(f"Question {row.id!r}: {name} must be text, not {values[name]!r}.")
    if not isinstance(row.seed, dict | None):
        raise Text2SqlError(f"Question {row.id!r}: seed must be a JSON object, not {row.seed!r}.")
    fields = {name: values[_COLUMNS.get(name, name)] for name in FIELDS}
    return ReportQuestion(**fields | {"expectations": read_expectations(row.expectations or {})})
