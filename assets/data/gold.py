"""What Dagster knows of gold queries beside their results: flags, and where the time goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import Outcome, great_expectations, validate
from assets.checks.view import table
from assets.common.plots import records
from assets.common.sources import GOLDS
from assets.common.versions import code_version, fingerprint
from assets.data import stored as data
from assets.data.splits import count_values
from text2sql.common.counting import counted
from text2sql.common.json_files import read_if_there, read_rows, write_json, write_rows
from text2sql.datasets.gold.checks import run_golds
from text2sql.datasets.gold.dialects import told
from text2sql.datasets.gold.findings import Flag
from text2sql.datasets.gold.flags import GoldFlag, flag_golds
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox
from text2sql.sandbox.sql.repeatable import asks_outside

FLAGS = "gold_flags.jsonl"
FLAG_STATE = "gold_flags.json"
SHOWN_DATABASES = 20

SENTENCES = {
    Flag.LIMIT_CUTS_TIE: "no LIMIT and no window cuts through rows that sort alike",
    Flag.LIMIT_WITHOUT_ORDER: "every LIMIT that leaves rows out has an ORDER BY",
    Flag.NULL_SORTS_FIRST: "no LIMIT takes a row because its sort key is NULL",
    Flag.TEXT_SORTED_AS_NUMBER: "no numbers are sorted as text where that changes the answer",
    Flag.UNKNOWN_CAST_TYPE: "every cast names a type that SQLite knows",
    Flag.BARE_COLUMN: "every column beside an aggregate has one value in its group",
    Flag.CONCAT_WITHOUT_ORDER: "nothing puts several values together in an order of chance",
    Flag.ASKS_OUTSIDE: "no gold query asks the clock, the time zone or chance",
    Flag.UNCHECKED: "every LIMIT and window could be looked into",
}


def usable_questions(root: Path, archive: data.Archive) -> list[Question]:
    """Return the questions of all splits that can be used; raise Text2SqlError where none can."""
    questions = [q for split in archive.splits for q in data.load_questions(root, split, archive)]
    if not questions:
        raise Text2SqlError(
            f"No question of {archive.folder} can be used: the checks of bird_questions say why; "
            "give the databases that are missing, or another source."
        )
    return questions


def gold_version(archive: data.Archive, questions: Sequence[Question], seconds: float) -> str:
    """Name everything that gold results depend on; ``seconds`` is the limit of a query."""
    return fingerprint(
        data=archive.fingerprint,
        queries=[[question.key, question.sql] for question in questions],
        seconds=seconds,
        code=code_version(*GOLDS),
        sqlite=sqlite3.sqlite_version,
    )


def find_flags(
    root: Path,
    archive: data.Archive,
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    box: Sandbox,
    limits: Limits,
) -> list[GoldFlag]:
    """Return the flags of a dataset's gold queries; those of the same golds are found once."""
    folder = data.dataset_folder(root, archive)
    version = fingerprint(
        golds=[[gold.key, gold.status, gold.digest] for gold in golds.values()],
        code=code_version(*GOLDS),
        sqlglot=installed("sqlglot"),
    )
    if read_if_there(folder / FLAG_STATE).get("version") == version:
        return [GoldFlag.from_dict(row) for row in read_rows(folder / FLAGS)]
    flags = flag_golds(questions, golds, box, limits)
    write_rows(folder / FLAGS, (flag.to_dict() for flag in flags))
    write_json(folder / FLAG_STATE, {"version": version})
    return flags


def with_flags(frame: pd.DataFrame, flags: Sequence[GoldFlag]) -> pd.DataFrame:
    """Return the gold results with ``flags``, a comma-separated text, and what was ``found``."""
    names: dict[str, list[str]] = {}
    details: dict[str, list[str]] = {}
    for found in flags:
        names.setdefault(found.key, []).append(found.flag.value)
        details.setdefault(found.key, []).append(found.detail)
    return frame.assign(
        flags=[",".join(names.get(key, [])) for key in frame["key"]],
        found=["; ".join(details.get(key, [])) for key in frame["key"]],
    )


def check_gold_determined(frame: pd.DataFrame) -> Outcome:
    """Warn of gold queries whose answer the data does not determine, or that guess at a type."""
    e = great_expectations().expectations
    expectations = [
        e.ExpectColumnValuesToNotMatchRegex(
            column="flags", regex=rf"\b{flag.value}\b", severity="warning", description=sentence
        )
        for flag, sentence in SENTENCES.items()
    ]
    return validate(frame, expectations, ("key", "db_id", "found", "sql"))


def time_by_database(frame: pd.DataFrame) -> dg.MetadataValue:
    """Return where the gold queries' time goes: the databases with the slowest query first."""
    rows: list[dict[str, Any]] = []
    for name, part in frame.groupby("db_id"):
        seconds = part["seconds"]
        rows.append(
            {
                "database": str(name),
                "queries": len(part),
                "seconds": round(float(seconds.sum()), 3),
                "median": round(float(seconds.median()), 4),
                "95th percentile": round(float(seconds.quantile(0.95)), 4),
                "slowest": round(float(seconds.max()), 4),
                "slowest query": str(part.loc[seconds.idxmax(), "key"]),
            }
        )
    rows.sort(key=lambda row: -row["slowest"])
    return records(rows[:SHOWN_DATABASES])


def describe_golds(frame: pd.DataFrame, flags: Sequence[GoldFlag]) -> dict[str, Any]:
    """Return what Dagster shows of gold results: how many, how they ended, flags, and the time."""
    kinds = pd.Series([flag.flag.value for flag in flags], dtype=object)
    return {
        "queries": len(frame),
        "by status": count_values(frame["status"]),
        "flags": count_values(kinds),
        "time by database": time_by_database(frame),
        "slowest": table(frame.nlargest(5, "seconds")[["key", "seconds", "row_count", "sql"]]),
    }


def run_all_golds(
    context: dg.AssetExecutionContext, questions: Sequence[Question], box: Sandbox, limits: Limits
) -> dict[str, GoldResult]:
    """Run the gold query of every question, and tell now and then how far it is."""

    def tell(ended: int, of: int) -> None:
        if ended == of or ended % 500 == 0:
            context.log.info(f"{ended:,} of {of:,} gold queries have run.")

    return run_golds(questions, box, limits, tell)


def renew_golds(
    context: dg.AssetExecutionContext,
    questions: Sequence[Question],
    golds: dict[str, GoldResult],
    box: Sandbox,
    limits: Limits,
) -> dict[str, GoldResult]:
    """Return an earlier run's results; queries that ask the clock or chance are run again."""
    changing = [question for question in questions if asks_outside(question.sql)]
    context.log.info(
        "Reused the gold results of an earlier run: nothing has changed. "
        f"Run again as they ask the clock or chance: {counted(len(changing), 'query', 'queries')}."
    )
    return golds | run_golds(changing, box, limits)


def gold_frame(questions: Sequence[Question], golds: Mapping[str, GoldResult]) -> pd.DataFrame:
    """Return the gold results beside their questions, as the suites look at them.

    The error of a query in another database's SQL says so.
    """
    rows = [
        golds[question.key].to_dict()
        | {
            "db_id": question.db_id,
            "sql": question.sql,
            "error": told(golds[question.key], question.sql),
        }
        for question in questions
    ]
    columns = [field.name for field in fields(GoldResult)]
    return pd.DataFrame(rows, columns=[*columns, "db_id", "sql"])
