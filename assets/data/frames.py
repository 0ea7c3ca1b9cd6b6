"""Questions and gold results as the suites see them, and summaries that Dagster shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import dagster as dg
import pandas as pd

from assets.common.plots import records
from text2sql.datasets.gold.flags import GoldFlag
from text2sql.datasets.gold.run import explain_failure
from text2sql.datasets.reading.questions import Record
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question

_TEXTS = ["key", "db_id", "question", "evidence", "sql", "difficulty"]


def question_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return a row for each question; an empty text becomes a null."""
    rows = [
        {name: getattr(record.question, name) or None for name in _TEXTS}
        | {"status": record.reason or "ok", "detail": record.detail}
        for record in records
    ]
    return pd.DataFrame(rows, columns=[*_TEXTS, "status", "detail"])


def gold_frame(questions: Sequence[Question], golds: Mapping[str, GoldResult]) -> pd.DataFrame:
    """Return the gold results beside their questions."""
    rows = []
    for one in questions:
        explained = {"error": explain_failure(golds[one.key], one.sql)}
        rows.append(golds[one.key].to_dict() | explained | {"db_id": one.db_id, "sql": one.sql})
    columns = [field.name for field in fields(GoldResult)]
    return pd.DataFrame(rows, columns=[*columns, "db_id", "sql"])


def with_flags(frame: pd.DataFrame, flags: Sequence[GoldFlag]) -> pd.DataFrame:
    """Return gold results with ``flags``, a comma-separated text, and what was ``found``."""
    by_key: dict[str, list[GoldFlag]] = {}
    for flag in flags:
        by_key.setdefault(flag.key, []).append(flag)
    of_rows = [by_key.get(key, []) for key in frame["key"]]
    return frame.assign(
        flags=[",".join(one.flag.value for one in found) for found in of_rows],
        found=["; ".join(one.detail for one in found) for found in of_rows],
    )


def time_by_database(frame: pd.DataFrame) -> dg.MetadataValue:
    """Return the time of gold queries by database, the one with the slowest query first."""
    rows: list[dict[str, Any]] = []
    for name, part in frame.groupby("db_id"):
        seconds = part["seconds"]
        row = {"database": str(name), "queries": len(part)}
        row |= {"seconds": round(float(seconds.sum()), 3)}
        for label, share in (("median", 0.5), ("95th percentile", 0.95), ("slowest", 1)):
            row[label] = round(float(seconds.quantile(share)), 4)
        rows.append(row | {"slowest query": str(part.loc[seconds.idxmax(), "key"])})
    rows.sort(key=lambda row: -row["slowest"])
    return records(rows[:20])


def count_values(column: pd.Series) -> dict[str, int]:
    """Return how often each value of a column occurs, the most frequent first."""
    return {str(name): int(count) for name, count in column.value_counts().items()}
