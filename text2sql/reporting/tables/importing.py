"""Bringing the table of questions up to date from a file before a day is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.question import ReportQuestion, find_database
from text2sql.reporting.tables.question_file import ImportReport, read_questions
from text2sql.reporting.tables.questions import QuestionTable


@dataclass(frozen=True)
class ShippedQuestions:
    """The questions that come with the project, and their databases in ``folder``.

    ``make_databases`` creates the databases in the folder and returns it.
    """

    file: Path
    folder: Path
    make_databases: Callable[[Path], Path]

    def includes(self, file: str | Path) -> bool:
        """Whether a file is the shipped one, of this or another checkout."""
        return Path(file).parts[-3:] == self.file.parts[-3:]


@dataclass(frozen=True)
class Refreshed:
    """What was done: the imported ``file`` (None: the tables' own questions) and its report.

    ``checked`` are the questions that were looked at, each with the path of its database, or as it
    was with the problem.
    """

    file: Path | None
    checked: list[tuple[ReportQuestion, str | None]]
    report: ImportReport = field(default_factory=ImportReport)


def refresh_questions(
    table: QuestionTable, shipped: ShippedQuestions, file: str = "", databases: str = ""
) -> Refreshed:
    """Import a file of questions, by default the shipped ones, each with its database's path.

    ``databases`` is the folder to look for databases in. The shipped questions are not mixed into
    tables that only have other questions; one whose id another file has taken is left to that
    file.
    """
    files = table.files()
    chosen = _choose(file, files, shipped)
    if databases:
        folder = Path(databases).expanduser().resolve()
    else:
        folder = shipped.folder if chosen is None else shipped.make_databases(shipped.folder)
    if chosen is None:
        questions = table.read(enabled_only=True).readable
    else:
        questions = read_questions(chosen)
        if shipped.includes(chosen):
            taken = {id for id, of in files.items() if of and not shipped.includes(of)}
            questions = [question for question in questions if question.id not in taken]
    checked = [_with_database(question, folder) for question in questions]
    if chosen is None:
        return Refreshed(None, checked)
    return Refreshed(chosen, checked, table.import_file(chosen, [q for q, _ in checked]))


def _choose(file: str, files: Mapping[str, str], shipped: ShippedQuestions) -> Path | None:
    """Return the file to import; None if the tables have questions and none is shipped."""
    if file:
        return Path(file).expanduser().resolve()
    if not files or any(map(shipped.includes, files.values())):
        return shipped.file
    return None


def _with_database(question: ReportQuestion, folder: Path) -> tuple[ReportQuestion, str | None]:
    try:
        return replace(question, database=str(find_database(question.database, [folder]))), None
    except Text2SqlError as error:
        return question, str(error)
