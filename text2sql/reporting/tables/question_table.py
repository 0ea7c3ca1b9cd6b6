"""The table of questions: what people add, edit, disable and import, and reading it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.database import wait_for_others
from text2sql.reporting.tables.records import question_of, question_row
from text2sql.reporting.tables.seeding import ImportReport, Seed, edited_fields, merge, seed_of
from text2sql.reporting.tables.store import ReportingStore
from text2sql.reporting.tables.views import free_view_name

_table = tables.questions
_LOCK = 7_418_235_002
"""PostgreSQL's advisory lock of those that change questions: two may add the same one."""
_UNREADABLE = (Text2SqlError, ValueError, TypeError)


@dataclass(frozen=True)
class QuestionList:
    """Questions in the order of their ids, and what is wrong with those that make no sense.

    A row that was edited by hand into nonsense is in ``unreadable``: its id and the problem.
    """

    readable: list[ReportQuestion]
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QuestionDetails:
    """A question with the name of its view, and how it stands to the file it came from.

    ``edited`` names the fields that differ from what ``seed_file`` had when it was imported last.
    """

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
        """Read the questions, of one schedule group or of all, each by itself."""
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
        """Return one question; raise Text2SqlError if there is none or its row is nonsense."""
        try:
            rows = self._store.read(sa.select(_table).where(_table.c.id == id))
        except (ValueError, TypeError) as error:
            raise Text2SqlError(f"question {id!r}: its row cannot be read: {error}") from error
        if not rows:
            raise _unknown([id], self._store)
        question = question_of(rows[0])
        edited = edited_fields(question, rows[0].seed)
        return QuestionDetails(question, rows[0].view_name, rows[0].seed_file, edited)

    def files(self) -> dict[str, str]:
        """Return the file that each question came from; ``""`` where it was made by hand."""
        rows = self._store.read(sa.select(_table.c.id, _table.c.seed_file))
        return {row.id: row.seed_file or "" for row in rows}

    def add(self, question: ReportQuestion) -> None:
        """Add a question; raise Text2SqlError where its id is taken."""
        with self._changing() as connection:
            if question.id in _ids(connection):
                raise Text2SqlError(
                    f"there is a question {question.id!r} already:"
                    " change it with text2sql questions edit"
                )
            _insert(connection, question)

    def edit(self, id: str, **changes: Any) -> ReportQuestion:
        """Change fields of a question; raise Text2SqlError where that makes no sense."""
        with self._changing() as connection:
            question = replace(_locked(connection, id)[0], **changes)
            _update(connection, question)
        return question

    def enable(self, ids: Sequence[str], enabled: bool) -> None:
        """Enable or disable questions, all or none; unknown ids are named in a Text2SqlError."""
        with self._changing() as connection:
            known = _ids(connection)
            if unknown := [id for id in ids if id not in known]:
                raise _unknown(unknown, self._store)
            values = {"enabled": enabled, "updated_at": datetime.now(UTC)}
            connection.execute(sa.update(_table).where(_table.c.id.in_(ids)).values(values))

    def import_file(
        self, file: Path, questions: Iterable[ReportQuestion], *, overwrite: bool = False
    ) -> ImportReport:
        """Merge a file's questions into the table (``seeding`` has the rules).

        With ``overwrite`` the table becomes what the file says, whatever was edited by hand. Of
        two questions with one id the last counts.
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
                    _overwrite(connection, question, str(file), report)
                else:
                    _merge(connection, question, str(file), report)
            report.gone = _gone(connection, str(file), latest)
        return report

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._store.writing() as connection:
            wait_for_others(connection, _LOCK)
            yield connection


def _unknown(ids: Sequence[str], store: ReportingStore) -> Text2SqlError:
    return Text2SqlError(
        f"there is no question {', '.join(map(repr, ids))} in {store.name};"
        " text2sql questions list shows all"
    )


def _ids(connection: Connection) -> set[str]:
    return set(connection.scalars(sa.select(_table.c.id)))


def _insert(
    connection: Connection, question: ReportQuestion, seed: Seed | None = None, file: str = ""
) -> None:
    taken = set(connection.scalars(sa.select(_table.c.view_name)))
    now = datetime.now(UTC)
    row = question_row(question, free_view_name(connection, question.id, taken))
    about = {"seed": seed, "seed_file": file or None, "created_at": now, "updated_at": now}
    connection.execute(sa.insert(_table).values(row | about))


def _update(connection: Connection, question: ReportQuestion, **about: Any) -> None:
    row = question_row(question, "") | about | {"updated_at": datetime.now(UTC)}
    del row["view_name"]
    connection.execute(sa.update(_table).where(_table.c.id == question.id).values(row))


def _locked(connection: Connection, id: str) -> tuple[ReportQuestion, Seed | None, str]:
    """Return a question, its seed and that one's file, held until the transaction ends."""
    query = sa.select(_table).where(_table.c.id == id).with_for_update()
    try:
        row = connection.execute(query).first()
    except (ValueError, TypeError) as error:
        raise Text2SqlError(f"question {id!r}: its row cannot be read: {error}") from error
    if row is None:
        raise Text2SqlError(f"there is no question {id!r}")
    return question_of(row), row.seed, row.seed_file or ""


def _overwrite(
    connection: Connection, theirs: ReportQuestion, file: str, report: ImportReport
) -> None:
    _update(connection, theirs, seed=seed_of(theirs), seed_file=file)
    report.updated[theirs.id] = ["everything"]


def _merge(connection: Connection, theirs: ReportQuestion, file: str, report: ImportReport) -> None:
    try:
        mine, seed, before = _locked(connection, theirs.id)
    except _UNREADABLE as error:
        report.unreadable[theirs.id] = str(error)
        return
    now, new = seed_of(mine), seed_of(theirs)
    if seed is None and now != new:
        report.own.append(theirs.id)
        return
    merged = merge(mine, seed or new, theirs)
    if merged.kept:
        report.kept[theirs.id] = list(merged.kept)
    if merged.taken:
        report.updated[theirs.id] = list(merged.taken)
        if before not in ("", file):
            report.moved[theirs.id] = before
    else:
        report.unchanged += 1
    if merged.taken or seed != new:
        _update(connection, merged.question, seed=new, seed_file=file)


def _gone(connection: Connection, file: str, latest: dict[str, ReportQuestion]) -> list[str]:
    query = sa.select(_table.c.id).where(_table.c.seed_file == file, _table.c.enabled)
    found = (id for id in connection.scalars(query) if isinstance(id, str))
    return sorted(id for id in found if id not in latest)
