"""The questions that people want answered every day, in the reporting tables."""

from pathlib import Path

import dagster as dg
import pandas as pd

from assets.checks.view import check_result
from assets.common.check_specs import check_specs
from assets.common.columns import REPORTING_TEAM, columns_of_table
from assets.common.failures import fails_in_a_sentence
from assets.common.plots import records
from assets.common.sources import version_for
from assets.reporting.checks import check_databases_found
from assets.reporting.config import ReportQuestionsConfig
from resources.paths import ArtifactRoot
from resources.reporting import ReportingDatabase
from text2sql.common.artifacts import report_databases
from text2sql.common.provenance import fingerprint
from text2sql.datasets.pocket.corpus import SHIPPED_QUESTIONS, generate_business_databases
from text2sql.reporting.tables.importing import ShippedQuestions, refresh_questions
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.schema import questions as questions_table

GROUP = "reporting"
SHOWN = 50
"""Questions that metadata shows at most."""


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
    folder = report_databases(root.path)
    shipped = ShippedQuestions(SHIPPED_QUESTIONS, folder, generate_business_databases)
    with reporting.open(root.path) as store:
        table = QuestionTable(store)
        found = refresh_questions(table, shipped, config.file, config.databases)
        enabled, target = table.read(enabled_only=True).readable, store.name
    notes = found.report.notes()
    for note in notes:
        context.log.warning(note)
    frame = pd.DataFrame(
        [[question.id, question.database, problem] for question, problem in found.checked],
        columns=["question", "database", "problem"],
    )
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
            "file": dg.MetadataValue.path(found.file)
            if found.file
            else "none: the tables' own questions",
            "questions": records(shown),
            "enabled": len(enabled),
            "added": len(found.report.added),
            "updated": len(found.report.updated),
            "not as the file says": dg.MetadataValue.text("\n".join(notes) or "none"),
            "reporting database": target,
        },
        check_results=[check_result("databases_found", check_databases_found(frame))],
        data_version=dg.DataVersion(fingerprint(questions=enabled)),
    )
