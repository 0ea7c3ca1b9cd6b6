"""The questions that people want answered every day, in the reporting tables."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from assets.checks.view import check_result
from assets.common.check_specs import check_specs
from assets.common.columns import REPORTING_TEAM, columns_of_table
from assets.common.failures import fails_in_a_sentence
from assets.common.plots import records
from assets.common.sources import version_for
from assets.common.versions import fingerprint
from assets.reporting.checks import check_databases_found
from resources.forms import Form
from resources.paths import ArtifactRoot
from resources.reporting import ReportingDatabase
from text2sql.datasets.pocket.corpus import generate_business_databases
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.question import ReportQuestion, find_database
from text2sql.reporting.tables.question_file import read_questions
from text2sql.reporting.tables.question_table import QuestionTable
from text2sql.reporting.tables.schema import questions as questions_table
from text2sql.reporting.tables.seeding import ImportReport

GROUP = "reporting"
REPORT_DATABASES = "report_databases"
SHOWN = 50
"""Questions that metadata shows at most."""


class ReportQuestionsConfig(Form):
    """Where the questions and their databases come from."""

    file: str = Field(
        default="",
        description="A YAML list of questions; empty: the shipped one, unless the tables hold "
        "questions of yours alone.",
    )
    databases: str = Field(
        default="",
        description="The folder of the databases; empty: the shipped questions' own database.",
    )


@dg.asset(
    group_name=GROUP,
    check_specs=check_specs("report_questions", databases_found=False),
    owners=REPORTING_TEAM,
    code_version=version_for("report_questions"),
    kinds={"sql"},
    metadata=columns_of_table(questions_table),
)
@fails_in_a_sentence
def report_questions(
    context: dg.AssetExecutionContext,
    config: ReportQuestionsConfig,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
) -> dg.MaterializeResult:
    """The questions as they are in the reporting tables, each with the path of its database.

    The file changes what nobody edited by hand. A question whose database is not there is kept
    as it is written: it alone cannot be answered. Without a file the shipped questions come into
    empty tables, and are never mixed into those that hold other questions alone; one whose id
    another file has taken since is left to that file.
    """
    report = ImportReport()
    with reporting.open(root.path) as store:
        table = QuestionTable(store)
        files = table.files()
        file = _file(config.file, files)
        folder = _folder(config.databases, root.path, file)
        resolved = [_resolve(question, folder) for question in _questions(file, files, table)]
        if file is not None:
            report = table.import_file(file, [question for question, _ in resolved])
        enabled, target = table.read(enabled_only=True).readable, store.name
    for note in report.notes():
        context.log.warning(note)
    frame = pd.DataFrame(
        [[q.id, q.database, problem] for q, problem in resolved],
        columns=["question", "database", "problem"],
    )
    return dg.MaterializeResult(
        metadata={
            "file": dg.MetadataValue.path(file) if file else "none: the tables' own questions",
            "questions": records([_question_row(question) for question in enabled[:SHOWN]]),
            "enabled": len(enabled),
            "added": len(report.added),
            "updated": len(report.updated),
            "not as the file says": dg.MetadataValue.text("\n".join(report.notes()) or "none"),
            "reporting database": target,
        },
        check_results=[check_result("databases_found", check_databases_found(frame))],
        data_version=dg.DataVersion(fingerprint(questions=enabled)),
    )


def shipped_questions() -> Path:
    """Return the list of business questions that comes with the pocket corpus."""
    import text2sql

    return Path(text2sql.__file__).parent / "datasets" / "pocket" / "report_questions.yaml"


def _file(named: str, files: dict[str, str]) -> Path | None:
    """Return the file to import, or None where the tables hold questions, and none shipped."""
    if named:
        return Path(named).expanduser().resolve()
    mixed = not files or any(_is_shipped(file) for file in files.values())
    return shipped_questions() if mixed else None


def _is_shipped(file: str | Path) -> bool:
    """Tell the shipped file, also that of another checkout."""
    return Path(file).parts[-3:] == shipped_questions().parts[-3:]


def _questions(
    file: Path | None, files: dict[str, str], table: QuestionTable
) -> Sequence[ReportQuestion]:
    """Return the questions of the file, or those that the tables hold.

    A shipped one whose id another file has taken is not among them: it would undo that file.
    """
    if file is None:
        return table.read(enabled_only=True).readable
    others = {id for id, of in files.items() if of and not _is_shipped(of)}
    taken = others if _is_shipped(file) else set()
    return [question for question in read_questions(file) if question.id not in taken]


def _folder(databases: str, root: Path, file: Path | None) -> Path:
    """Return the folder of the databases: the one that was named, or the shipped questions'."""
    if databases:
        return Path(databases).expanduser().resolve()
    if file is None:
        return root / REPORT_DATABASES
    return generate_business_databases(root / REPORT_DATABASES)


def _resolve(question: ReportQuestion, folder: Path) -> tuple[ReportQuestion, str | None]:
    """Return the question with the path of its database, or with what is wrong with it."""
    try:
        return replace(question, database=str(find_database(question.database, [folder]))), None
    except Text2SqlError as error:
        return question, str(error)


def _question_row(question: ReportQuestion) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.question,
        "database": Path(question.database).stem,
        "votes": question.votes,
        "minimum share": question.minimum_share,
    }
