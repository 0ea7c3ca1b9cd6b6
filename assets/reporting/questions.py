"""The questions that people want answered every day, in the reporting tables."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pandas as pd
from pydantic import Field

from assets.checks.view import check_result
from assets.common.check_specs import check_specs
from assets.common.columns import REPORTING_TEAM, columns_of_table
from assets.common.failures import fails_in_a_sentence
from assets.common.plots import records
from assets.common.sources import version_for
from assets.reporting.checks import check_databases_found
from resources.artifact_root import ArtifactRoot
from resources.forms import Form
from resources.reporting import ReportingDatabase
from text2sql.common.artifacts import report_databases
from text2sql.common.provenance import fingerprint
from text2sql.datasets.pocket.corpus import SHIPPED_QUESTIONS, generate_business_databases
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.question import ReportQuestion, find_database
from text2sql.reporting.tables.question_file import ImportReport, read_questions
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.schema import questions as questions_table

GROUP = "reporting"
SHOWN = 50
"""Questions that metadata shows at most."""


class ReportQuestionsConfig(Form):
    """Where the questions and their databases come from."""

    file: str = Field(
        default="",
        description="A YAML list of questions; empty: the shipped questions, unless the tables "
        "only have others.",
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
    """The questions in the reporting tables, each with the path of its database.

    The file changes what nobody edited by hand. A question whose database is missing stays as it
    is written: only it cannot be answered. Without a file the shipped questions go into empty
    tables, and are never mixed into tables that only have other questions; one whose id another
    file has taken since is left to that file.
    """
    checked: list[ReportQuestion] = []
    problems: list[str | None] = []
    with reporting.open(root.path) as store:
        table = QuestionTable(store)
        file, questions = _questions_to_check(table, config.file)
        folder = report_databases(root.path)
        if config.databases:
            folder = Path(config.databases).expanduser().resolve()
        elif file:
            generate_business_databases(folder)
        for question in questions:
            try:
                path = str(find_database(question.database, [folder]))
                checked.append(replace(question, database=path))
                problems.append(None)
            except Text2SqlError as error:
                checked.append(question)
                problems.append(str(error))
        report = table.import_file(file, checked) if file else ImportReport()
        enabled, target = table.read(enabled_only=True).readable, store.name
    notes = report.notes()
    for note in notes:
        context.log.warning(note)
    columns = {
        "question": [question.id for question in checked],
        "database": [question.database for question in checked],
        "problem": problems,
    }
    shown = [
        {
            "id": question.id,
            "question": question.question,
            "database": Path(question.database).stem,
            "votes": question.votes,
            "minimum share": question.minimum_share,
        }
        for question in enabled[:SHOWN]
    ]
    return dg.MaterializeResult(
        metadata={
            "file": dg.MetadataValue.path(file) if file else "none: the tables' own questions",
            "questions": records(shown),
            "enabled": len(enabled),
            "added": len(report.added),
            "updated": len(report.updated),
            "not as the file says": dg.MetadataValue.text("\n".join(notes) or "none"),
            "reporting database": target,
        },
        check_results=[
            check_result("databases_found", check_databases_found(pd.DataFrame(columns)))
        ],
        data_version=dg.DataVersion(fingerprint(questions=enabled)),
    )


def _questions_to_check(
    table: QuestionTable, file: str
) -> tuple[Path | None, list[ReportQuestion]]:
    """Return the questions of a file, or the tables' own, without a file.

    The shipped file is the default unless the tables only have other questions.
    """

    def is_shipped(file: str | Path) -> bool:  # of this or another checkout
        return Path(file).parts[-3:] == SHIPPED_QUESTIONS.parts[-3:]

    files = table.files()
    if not file and files and not any(map(is_shipped, files.values())):
        return None, table.read(enabled_only=True).readable
    chosen = Path(file).expanduser().resolve() if file else SHIPPED_QUESTIONS
    others = {id for id, of in files.items() if of and not is_shipped(of)}
    taken = others if is_shipped(chosen) else set()
    return chosen, [one for one in read_questions(chosen) if one.id not in taken]
