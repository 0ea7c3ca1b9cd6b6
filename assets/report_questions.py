"""The questions that people want answered every day, in the reporting tables."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from assets import data
from assets.answer_checks import check_databases_found
from assets.bird import bird_archive
from assets.expectations import check_result
from assets.plots import records
from assets.versions import code_version, fingerprint
from resources.paths import ArtifactRoot
from resources.reporting import ReportingDatabase
from text2sql.errors import Text2SqlError
from text2sql.reporting.questions import ReportQuestion, find_database, read_questions

GROUP = "reporting"
REPORT_DATABASES = "report_databases"
SHOWN = 50
"""Questions that metadata shows at most."""


class ReportQuestionsConfig(dg.Config):
    """Where the questions and their databases come from."""

    file: str = Field(default="", description="A YAML list of questions; empty: the shipped one.")
    databases: str = Field(
        default="",
        description="The folder of the databases; empty: report_databases of the pocket corpus.",
    )


@dg.asset(
    group_name=GROUP,
    deps=[bird_archive],
    check_specs=[dg.AssetCheckSpec("databases_found", asset="report_questions")],
    code_version=code_version("text2sql/reporting/questions.py", "text2sql/reporting/tables.py"),
    kinds={"sql"},
)
def report_questions(
    config: ReportQuestionsConfig, root: ArtifactRoot, reporting: ReportingDatabase
) -> dg.MaterializeResult:
    """The questions as they are in the reporting tables, each with the path of its database.

    A question whose database is not there is kept as it is written: it alone cannot be answered.
    """
    file = Path(config.file).expanduser().resolve() if config.file else shipped_questions()
    folders = [Path(config.databases).expanduser().resolve()] if config.databases else []
    folders = folders or pocket_databases(root.path)
    resolved = [_resolve(question, folders) for question in read_questions(file)]
    with reporting.open(root.path) as store:
        store.save_questions(question for question, _ in resolved)
        enabled, target = store.questions(), store.name
    frame = pd.DataFrame(
        [[q.id, q.database, problem] for q, problem in resolved],
        columns=["question", "database", "problem"],
    )
    return dg.MaterializeResult(
        metadata={
            "file": dg.MetadataValue.path(file),
            "questions": records([_question_row(question) for question in enabled[:SHOWN]]),
            "enabled": len(enabled),
            "reporting database": target,
        },
        check_results=[check_result("databases_found", check_databases_found(frame))],
        data_version=dg.DataVersion(fingerprint(questions=enabled)),
    )


def shipped_questions() -> Path:
    """Return the list of business questions that comes with the pocket corpus."""
    import text2sql

    return Path(text2sql.__file__).parent / "datasets" / "pocket" / "report_questions.yaml"


def pocket_databases(root: Path) -> list[Path]:
    """Return the folders of business databases: of the archive in use, then of any other."""
    used = [data.load_archive(root).folder] if (root / "bird" / data.ARCHIVE).is_file() else []
    corpora = [*used, *sorted((root / "corpus").glob("*"))]
    return [corpus / REPORT_DATABASES for corpus in corpora]


def _resolve(
    question: ReportQuestion, folders: Sequence[Path]
) -> tuple[ReportQuestion, str | None]:
    """Return the question with the path of its database, or with what is wrong with it."""
    try:
        return replace(question, database=str(find_database(question.database, folders))), None
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
